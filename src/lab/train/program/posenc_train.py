#!/usr/bin/env python3
"""What torchrun starts for `posenc train`, with and without --no-python: the path is printed by `posenc which train`."""
import os
import sys

lab = os.path.join(os.path.dirname(os.path.realpath(__file__)), "posenc-lab")
os.execv(lab, [lab, "train", *sys.argv[1:]])
