"""What columns are called in the large languages of Europe, and what a name's words mean.

A word that ends in `-` begins longer ones, and one that begins with `-` ends them: `klinik-` is in
`Klinikname`, `-nummer` in `Fallnummer`. Accents and capitals do not matter. Earlier words of a
language name their concept more likely than later ones.
"""

import re
import unicodedata
from typing import Literal

Concept = Literal[
    "client", "target", "sensitive", "age", "identifier", "until", "since", "yes", "no"
]
"""A `target` with ! is bad for people. `until`: what is known only at the end of an observation,
and `since`: the rest of a survival table, where such a column is in it."""
_WORDS: dict[Concept, dict[str, str]] = {
    "client": {
        "en": """client hospital site centre center clinic provider institution bank branch school
            university writer device user customer subject patient person household employer
            company department store organisation organization state province county region
            district city town village country zip zipcode postcode""",
        "de": """klinik- krankenhaus- spital standort zentrum praxis einrichtung bank filiale
            schule hochschule universität gerät nutzer- kunde kunden- patient- person haushalt
            arbeitgeber firma betrieb unternehmen abteilung station bundesland kreis landkreis
            bezirk region stadt gemeinde land plz postleitzahl""",
        "fr": """hôpital clinique établissement centre banque agence école université appareil
            utilisateur client patient personne ménage employeur entreprise magasin service
            département région ville commune pays postal""",
        "es": """hospital clínica centro institución banco sucursal escuela colegio universidad
            dispositivo usuario cliente paciente persona hogar empleador empresa tienda
            departamento provincia región comunidad municipio ciudad pueblo país""",
        "it": """ospedale clinica centro sede istituto banca filiale scuola università dispositivo
            utente cliente paziente persona famiglia azienda reparto negozio provincia regione
            comune città paese""",
        "pt": """hospital clínica centro instituição banco agência escola universidade dispositivo
            utilizador usuário utente cliente paciente pessoa domicílio empresa loja departamento
            estado província região município cidade país""",
        "nl": """ziekenhuis- kliniek- locatie centrum instelling bank filiaal school universiteit
            apparaat gebruiker klant patiënt- persoon huishouden werkgever bedrijf winkel afdeling
            provincie regio gemeente stad dorp land postcode""",
        "pl": """szpital klinika placówka ośrodek centrum instytucja bank oddział szkoła uczelnia
            urządzenie użytkownik klient pacjent osoba gospodarstwo pracodawca firma sklep
            województwo powiat region gmina miasto kraj""",
        "sv": """sjukhus- klinik- vårdcentral centrum institution bank filial skola universitet
            enhet användare kund patient- person hushåll arbetsgivare företag butik avdelning län
            region kommun stad land postnummer""",
    },
    "target": {
        "en": """target label class outcome y response recid! recidivism! default! readmitted!
            readmission! approved approval hired admitted admission churn! fraud! diagnosis!
            diagnosed! disease! death! died! mortality! income pincp earnings salary wage passed
            pass result decision grade credit risk! score price cost charges payments denied!
            rejected! arrested! dropout! failed!""",
        "de": """ziel- klasse ergebnis rückfall! zahlungsausfall! wiederaufnahme!
            wiedereinweisung! bewilligt bewilligung genehmigt eingestellt abwanderung! kündigung!
            betrug! diagnose! krankheit! tod! gestorben! verstorben! mortalität! sterblichkeit!
            einkommen gehalt lohn bestanden entscheidung note kredit risiko! preis kosten
            abgelehnt! abbruch!""",
        "fr": """cible classe résultat réponse récidive! défaut! réadmission! accordé embauche
            fraude! diagnostic! maladie! décès! décédé! mort! mortalité! revenu salaire réussi
            décision note crédit risque! prix coût refusé! abandon!""",
        "es": """objetivo clase resultado respuesta reincidencia! impago! reingreso! aprobado
            aprobación contratado admisión fraude! diagnóstico! enfermedad! muerte! fallecido!
            mortalidad! ingresos salario sueldo decisión nota crédito riesgo! precio coste costo
            rechazado! abandono!""",
        "it": """obiettivo classe esito risultato risposta recidiva! insolvenza! riammissione!
            approvato assunto frode! diagnosi! malattia! morte! deceduto! decesso! mortalità!
            reddito stipendio promosso decisione voto credito rischio! prezzo costo respinto!
            abbandono!""",
        "pt": """alvo classe desfecho resultado resposta reincidência! inadimplência!
            incumprimento! readmissão! aprovado contratado admissão fraude! diagnóstico! doença!
            morte! óbito! falecido! mortalidade! renda rendimento salário decisão nota crédito
            risco! preço custo recusado! abandono!""",
        "nl": """doel- klasse uitkomst resultaat recidive! wanbetaling! heropname! goedgekeurd
            aangenomen fraude! diagnose! ziekte! overlijden! overleden! sterfte! inkomen salaris
            loon geslaagd beslissing cijfer krediet risico! prijs kosten geweigerd! uitval!""",
        "pl": """cel klasa wynik odpowiedź recydywa! zatwierdzony zatrudniony oszustwo!
            rozpoznanie! diagnoza! choroba! zgon! śmierć! śmiertelność! dochód wynagrodzenie
            pensja zdany decyzja ocena kredyt ryzyko! cena koszt odrzucony!""",
        "sv": """mål klass utfall resultat svar återfall! återinläggning! godkänd anställd antagen
            bedrägeri! diagnos! sjukdom! död! avliden! dödlighet! inkomst lön beslut betyg kredit
            pris kostnad risk! avslag! avhopp!""",
    },
    "sensitive": {
        "en": """sex gender female male race racial rac ethnic ethnicity hispanic hisp black white
            asian colour color skin religion religious faith caste disability disabled dis
            nationality nation national native nativity citizen citizenship cit immigrant foreign
            marital married mar orientation pregnant veteran language zip zipcode postcode""",
        "de": """geschlecht- weiblich männlich ethnie ethnisch herkunft hautfarbe religion-
            konfession behinderung schwerbehinderung behindert nationalität staatsangehörigkeit
            staatsbürgerschaft migration- familienstand verheiratet schwanger- sprache
            muttersprache plz postleitzahl""",
        "fr": """sexe genre femme homme ethnie origine religion handicap nationalité immigré
            matrimonial matrimoniale marié mariée enceinte langue peau postal""",
        "es": """sexo género mujer hombre etnia raza origen religión discapacidad nacionalidad
            ciudadanía inmigrante civil casado casada embarazo embarazada idioma lengua piel""",
        "it": """sesso genere donna uomo etnia razza origine religione disabilità disabile
            nazionalità cittadinanza immigrato civile sposato sposata gravidanza incinta
            lingua""",
        "pt": """sexo género gênero mulher homem etnia raça origem religião deficiência
            nacionalidade cidadania imigrante civil casado casada gravidez grávida idioma
            língua""",
        "nl": """geslacht- vrouw etniciteit afkomst herkomst religie geloof handicap beperking
            nationaliteit burgerschap migratie- burgerlijke gehuwd zwanger- taal postcode""",
        "pl": """płeć kobieta mężczyzna etniczność etniczna rasa pochodzenie religia wyznanie
            niepełnosprawność niepełnosprawny narodowość obywatelstwo imigrant cywilny ciąża
            język""",
        "sv": """kön kvinna etnicitet ursprung religion funktionsnedsättning funktionshinder
            nationalitet medborgarskap invandrare civilstånd gravid språk postnummer""",
    },
    "age": {
        "en": "age agep",
        "de": "alter alters-",
        "fr": "âge",
        "es": "edad",
        "it": "età",
        "pt": "idade",
        "nl": "leeftijd-",
        "pl": "wiek",
        "sv": "ålder ålders-",
    },
    "identifier": {
        "en": "id uuid name key mrn ssn number",
        "de": "-nummer nr kennung schlüssel aktenzeichen -name",
        "fr": "identifiant numéro nom clé",
        "es": "identificador número nombre clave",
        "it": "identificativo numero nome chiave",
        "pt": "identificador número nome chave",
        "nl": "-nummer naam sleutel kenmerk",
        "pl": "identyfikator numer nazwa imię nazwisko klucz",
        "sv": "-nummer namn nyckel",
    },
    "until": {
        "en": """until event censored censoring censor followup survival survived exit stop tstop
            tstart""",
        "de": """bis ereignis zensiert zensierung nachbeobachtung beobachtungsdauer
            beobachtungszeit überlebenszeit überlebt austritt""",
        "fr": "événement censure censuré suivi survie sortie",
        "es": "hasta evento censura censurado seguimiento supervivencia",
        "it": "evento censura censurato sopravvivenza uscita",
        "pt": "evento censura censurado seguimento sobrevivência sobrevida",
        "nl": "gebeurtenis gecensureerd overleving opvolging",
        "pl": "zdarzenie cenzurowanie cenzurowany przeżycie obserwacja",
        "sv": "händelse censurerad överlevnad uppföljning",
    },
    "since": {
        "en": "from since start entry time duration days tenure",
        "de": "von seit beginn eintritt zeit dauer tage",
        "fr": "depuis début entrée temps durée jours",
        "es": "desde inicio entrada tiempo duración días",
        "it": "inizio ingresso tempo durata giorni",
        "pt": "desde início entrada tempo duração dias",
        "nl": "vanaf sinds begin tijd duur dagen",
        "pl": "początek czas dni",
        "sv": "från sedan start tid dagar",
    },
    "yes": {
        "en": "yes y true t 1 1.0 good approved pass passed high >50k",
        "other": "ja j gut bestanden oui o vrai sí s sì si sim tak goed geslaagd bra",
    },
    "no": {
        "en": "no n false f 0 0.0 bad denied fail failed low <=50k",
        "other": "nein schlecht non faux não nie nee nej slecht dålig",
    },
}
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
    found: dict[str, int] = {}
    for words in _WORDS[concept].values():
        for rank, word in enumerate(_plain(words).casefold().split()):
            found[word] = min(rank, found.get(word, rank))
    return found


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
