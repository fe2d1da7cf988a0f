"""The style sheet that shows fields for the choices for which they count.

It is made from the fields, so that a new choice needs no rule of its own. Where a browser lacks
`:has`, every field is shown, with a note.
"""

from functools import cache

from api.pages.spec_form import fields

NAME = "experiment_choices.css"

_ALWAYS = {fields.UPLOADED: 'option[data-kind="uploaded"]', "own": 'input[value="own"]'}
"""Choices whose elements are found in another way, or that no field of a section names."""


@cache
def choice_rules() -> str:
    """CSS: hidden unless the choice is made."""
    chosen = dict(_ALWAYS)
    mechanisms = {name for name, _, _ in fields.MECHANISMS}
    for section in fields.SECTIONS:
        for one in section.fields:
            for choice in one.only:
                element = "input" if choice in mechanisms else "option"
                chosen.setdefault(choice, f'{element}[value="{choice}"]')
    rules = ",\n".join(
        f"  .spec-form:has({element}:checked) .for-{choice}" for choice, element in chosen.items()
    )
    return (
        "@supports selector(:has(*)) {\n"
        "  .only, .only-note { display: none; }\n"
        f"{rules} {{ display: block; }}\n"
        "}\n"
    )
