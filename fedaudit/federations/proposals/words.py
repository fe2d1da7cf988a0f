"""What columns are called in the large languages of Europe, and what a name's words mean.

A word that ends in `-` begins longer ones, and one that begins with `-` ends them: `klinik-` is in
`Klinikname`, `-nummer` in `Fallnummer`. Accents and capitals do not matter. Earlier words of a
language name their concept more likely than later ones.
"""

import re
import unicodedata
from collections import Counter
from typing import Literal

Concept = Literal[
    "client", "target", "sensitive", "age", "identifier", "until", "since", "yes", "no"
]
"""A `target` with ! is bad for people. `until`: what is known only at the end of an observation,
and `since`: the rest of a survival table, where such a column is in it."""
_WORDS: dict[Concept, str] = {
    "client": """
en client hospital site centre center clinic provider institution bank branch school university
en writer device user customer subject patient person household employer company department store
en organisation organization state province county region district city town village country zip
en zipcode postcode
de klinik- krankenhaus- spital standort zentrum praxis einrichtung bank filiale schule gerät nutzer-
de kunde kunden- patient- person haushalt arbeitgeber firma betrieb abteilung bundesland kreis
de landkreis bezirk region stadt gemeinde land plz postleitzahl
fr hôpital clinique établissement centre banque agence école université appareil utilisateur client
fr patient personne ménage employeur entreprise service département région ville commune pays
es hospital clínica centro banco sucursal escuela universidad dispositivo usuario cliente paciente
es persona hogar empresa departamento provincia región municipio ciudad país
it ospedale clinica centro sede banca filiale scuola università dispositivo utente cliente paziente
it persona famiglia azienda reparto provincia regione comune città paese
pt hospital clínica centro banco agência escola universidade dispositivo utilizador usuário utente
pt cliente paciente pessoa empresa departamento estado província região município cidade país
nl ziekenhuis- kliniek- locatie centrum bank filiaal school universiteit apparaat gebruiker klant
nl patiënt- persoon huishouden bedrijf afdeling provincie regio gemeente stad land postcode
pl szpital klinika placówka ośrodek bank oddział szkoła uczelnia urządzenie użytkownik klient
pl pacjent osoba gospodarstwo firma województwo powiat region gmina miasto kraj
sv sjukhus- klinik- vårdcentral centrum bank filial skola universitet enhet användare kund patient-
sv person hushåll företag avdelning län region kommun stad land""",
    "target": """
en target label class outcome y response recid! recidivism! default! readmitted! readmission!
en approved approval hired admitted admission churn! fraud! diagnosis! diagnosed! disease! death!
en died! mortality! income pincp earnings salary wage passed pass result decision grade credit risk!
en score price cost charges payments denied! rejected! arrested! dropout! failed!
de ziel- klasse ergebnis rückfall! zahlungsausfall! wiederaufnahme! bewilligt genehmigt eingestellt
de abwanderung! kündigung! betrug! diagnose! krankheit! tod! gestorben! verstorben! mortalität!
de sterblichkeit! einkommen gehalt lohn bestanden entscheidung note risiko! preis kosten abgelehnt!
fr cible classe résultat réponse récidive! défaut! réadmission! accordé embauche fraude! diagnostic!
fr maladie! décès! décédé! mort! mortalité! revenu salaire réussi décision risque! prix coût refusé!
es objetivo clase resultado respuesta reincidencia! impago! reingreso! aprobado contratado fraude!
es diagnóstico! enfermedad! muerte! fallecido! mortalidad! ingresos salario decisión riesgo! precio
it obiettivo classe esito risultato recidiva! insolvenza! approvato assunto frode! diagnosi!
it malattia! morte! deceduto! decesso! mortalità! reddito stipendio promosso decisione rischio!
pt alvo classe desfecho resultado reincidência! inadimplência! readmissão! aprovado contratado
pt fraude! diagnóstico! doença! morte! óbito! falecido! mortalidade! renda salário decisão risco!
nl doel- klasse uitkomst resultaat recidive! wanbetaling! heropname! goedgekeurd fraude! diagnose!
nl ziekte! overlijden! overleden! sterfte! inkomen salaris loon geslaagd beslissing risico! prijs
pl cel klasa wynik odpowiedź recydywa! zatwierdzony zatrudniony oszustwo! rozpoznanie! diagnoza!
pl choroba! zgon! śmierć! śmiertelność! dochód wynagrodzenie zdany decyzja ocena ryzyko! cena koszt
sv mål klass utfall resultat återfall! återinläggning! godkänd anställd antagen bedrägeri! diagnos!
sv sjukdom! död! avliden! dödlighet! inkomst lön beslut betyg pris kostnad avslag!""",
    "sensitive": """
en sex gender female male race racial rac ethnic ethnicity hispanic hisp black white asian colour
en color skin religion religious faith caste disability disabled dis nationality nation national
en native nativity citizen citizenship cit immigrant foreign marital married mar orientation
en pregnant veteran language zip zipcode postcode
de geschlecht- weiblich männlich ethnie herkunft hautfarbe religion- konfession behinderung
de schwerbehinderung behindert nationalität staatsangehörigkeit staatsbürgerschaft migration-
de familienstand verheiratet schwanger- sprache muttersprache plz postleitzahl
fr sexe genre femme homme ethnie origine religion handicap nationalité immigré matrimonial
fr matrimoniale marié mariée enceinte langue peau postal
es sexo género mujer hombre etnia raza origen religión discapacidad nacionalidad ciudadanía
es inmigrante civil casado casada embarazo embarazada idioma lengua piel
it sesso genere donna uomo etnia razza origine religione disabilità disabile nazionalità
it cittadinanza immigrato civile sposato sposata gravidanza incinta lingua
pt sexo género gênero mulher homem etnia raça origem religião deficiência nacionalidade cidadania
pt imigrante civil casado casada gravidez grávida idioma língua
nl geslacht- vrouw etniciteit afkomst herkomst religie geloof handicap beperking nationaliteit
nl burgerschap migratie- burgerlijke gehuwd zwanger- taal postcode
pl płeć kobieta mężczyzna etniczność rasa pochodzenie religia wyznanie niepełnosprawność narodowość
pl obywatelstwo imigrant cywilny ciąża język
sv kön kvinna etnicitet ursprung religion funktionsnedsättning nationalitet medborgarskap invandrare
sv civilstånd gravid språk postnummer""",
    "age": "all age agep alter alters- âge edad età idade leeftijd- wiek ålder ålders-",
    "identifier": """
all id uuid name key mrn ssn number nr -nummer kennung schlüssel aktenzeichen -name identifiant
all numéro nom clé identificador nombre clave identificativo nome chiave chave naam sleutel
all identyfikator numer nazwa imię nazwisko klucz namn nyckel""",
    "until": """
all until event censored censoring censor followup survival survived exit stop tstop tstart bis
all ereignis zensiert nachbeobachtung beobachtungszeit überlebenszeit überlebt austritt événement
all censure censuré suivi survie sortie hasta evento censura censurado seguimiento supervivencia
all censurato sopravvivenza seguimento sobrevivência gebeurtenis overleving opvolging zdarzenie
all przeżycie obserwacja händelse censurerad överlevnad uppföljning""",
    "since": """
all from since start entry time duration days tenure von seit beginn zeit dauer tage depuis début
all temps durée jours desde inicio tiempo duración días inizio tempo durata giorni início duração
all dias vanaf sinds tijd duur dagen początek czas dni från sedan tid dagar""",
    "yes": """
all yes y true t 1 1.0 good approved pass passed high >50k ja j gut bestanden oui o vrai sí s sì si
all sim tak goed geslaagd bra""",
    "no": """
all no n false f 0 0.0 bad denied fail failed low <=50k nein schlecht non faux não nie nee nej
all slecht dålig""",
}
"""Each line has words of one language, which is named first."""
_SPELLINGS = str.maketrans({"ß": "ss", "ł": "l", "Ł": "L", "ø": "o", "Ø": "O", "æ": "ae"})
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")


def _plain(text: str) -> str:
    """Without accents."""
    parts = unicodedata.normalize("NFKD", text.translate(_SPELLINGS))
    return "".join(one for one in parts if not unicodedata.combining(one))


def words_of(name: str) -> list[str]:
    """The words in a column's name, in small letters without accents: `two_year_recid`,
    `AgeGroup`."""
    return [word.casefold() for word in _WORD.findall(_plain(name))]


def _ranks(concept: Concept) -> dict[str, int]:
    """Each word, or part of a word, and its place among those of its language."""
    ranks: dict[str, int] = {}
    read: Counter[str] = Counter()
    for language, *words in map(str.split, _plain(_WORDS[concept]).casefold().strip().split("\n")):
        for word in words:
            ranks[word] = min(read[language], ranks.get(word, read[language]))
            read[language] += 1
    return ranks


_RANKS: dict[Concept, dict[str, int]] = {concept: _ranks(concept) for concept in _WORDS}


def named(name: str, concept: Concept, *, bad: bool = False) -> tuple[int, str] | None:
    """The word by which a column's name speaks of a concept, behind its rank: the least. `bad`:
    whether words that sound bad for people count alone."""
    found = [
        (rank, word)
        for word in words_of(name)
        for known, rank in _RANKS[concept].items()
        if _is(word, known.rstrip("!")) and (known.endswith("!") or not bad)
    ]
    return min(found, default=None)


def _is(word: str, known: str) -> bool:
    begins = known.endswith("-") and word.startswith(known[:-1])
    return word == known or begins or (known.startswith("-") and word.endswith(known[1:]))


def spells(value: str, concept: Concept) -> bool:
    """Whether a cell says yes, or no."""
    return _plain(value).casefold() in _RANKS[concept]
