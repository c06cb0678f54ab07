"""``python -m posenc`` is the program posenc."""

import os
import sys

from posenc.figures import program

os.execv(program(), ["posenc", *sys.argv[1:]])
