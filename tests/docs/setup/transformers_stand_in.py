"""transformers as python/tests/hf_stand_in.py has it: a small random Llama for pages that load a model."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python/tests"))
from hf_stand_in import modules  # noqa: E402

sys.modules.update(modules())
