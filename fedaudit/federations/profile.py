"""What a federation looks like, in a few figures."""

from typing import Any

import numpy as np

from fedaudit.federations.federation import Attribute, Federation


def profile(federation: Federation) -> dict[str, Any]:
    """Sizes and names, as JSON: no value of a feature or target appears in it.

    Group sizes are exact counts of rows and therefore confidential where groups are small.
    """
    rows = np.count_nonzero(federation.mask, axis=1)
    return {
        "clients": federation.clients,
        "rows": federation.rows,
        "rows_per_client": {
            "minimum": int(rows.min()),
            "median": float(np.median(rows)),
            "maximum": int(rows.max()),
        },
        "features": list(federation.feature_names),
        "target": federation.target_name,
        "classes": list(federation.classes),
        "attributes": {
            attribute.name: _group_sizes(attribute) for attribute in federation.attributes
        },
        "notes": list(federation.notes),
    }


def _group_sizes(attribute: Attribute) -> dict[str, int]:
    codes = attribute.codes[attribute.codes >= 0]
    counts = np.bincount(codes, minlength=len(attribute.values))
    return dict(zip(attribute.values, counts.tolist(), strict=True))
