#!/usr/bin/env bash
# deb_test.sh SOURCE PYTHON WORK: builds the Debian packages, unpacks them into a folder and uses them there.
set -euo pipefail
source_tree=$1 python=$2 work=$3
for program in dh lintian; do
  if ! command -v "$program" >/dev/null; then
    echo "deb_test: $program is missing"
    exit 1
  fi
done
rm -rf "$work"
mkdir -p "$work/root"
"$source_tree/tools/deb.sh" "$work/dist"
for package in libposenc libposenc-dev posenc python3-posenc; do
  dpkg-deb --extract "$work/dist/${package}"_*.deb "$work/root"
done

usr="$work/root/usr"
libraries="$usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)"
export LD_LIBRARY_PATH="$libraries" PYTHONPATH="$usr/lib/python3/dist-packages"
cd "$work"
version="$(dpkg-deb --field dist/posenc_*.deb Version)"
[[ "$("$usr/bin/posenc" --version)" == "posenc ${version%-*}" ]]
"$usr/bin/posenc" plot bias --encoding alibi -o alibi.png
"$usr/bin/posenc" train "$usr/share/posenc/configs/demo.yaml" --out run --set train.steps=3 --set eval.samples=8
"$python" -c "
import torch, posenc
q = torch.randn(1, 2, 5, 8, requires_grad=True)
posenc.attention(q, q, q, 'rope', causal=True).sum().backward()
assert posenc.__version__ == '${version%-*}' and posenc.__file__.startswith('$usr'), posenc.__file__
"
cc "$source_tree/examples/c_consumer/main.c" -o consumer -I"$usr/include" -L"$libraries" -lposenc_c -lm
./consumer | grep "^posenc ${version%-*}, ABI"
echo "fine: the packages work"
