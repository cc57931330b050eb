"""Import this first and Jupyter starts 1.5 to 2 seconds sooner.

jsonschema, which Jupyter imports everywhere, builds a grammar for international addresses (``iri``) at import. It
treats that grammar as optional, and no notebook or Jupyter setting uses it; so it is declared missing here.
``pytest -p`` may name this module.
"""

import sys

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # None makes its import raise ImportError
