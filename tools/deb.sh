#!/usr/bin/env bash
# Builds the Debian packages from packaging/debian: tools/deb.sh DIST. JOBS bounds the compilers.
set -euo pipefail
dist="$(realpath -m "${1:?usage: tools/deb.sh DIST}")"
cd "$(dirname "$0")/.."
version="$(sed -n 's/^posenc (\(.*\)-[0-9]*) .*/\1/p' packaging/debian/changelog | head -n 1)"
work="build/deb/posenc-$version"

rm -rf build/deb
mkdir -p "$work" "$dist"
# The sources as git knows them, and debian/ where Debian's tools look for it.
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
  [[ ! -e "$file" ]] || printf '%s\0' "$file"
done | tar --null --files-from=- -cf - | tar -C "$work" -xf -
cp -r packaging/debian "$work/debian"
# The explorer, where `make web` has built it.
if [[ -f build/web/dist/index.html ]]; then
  mkdir -p "$work/build/web"
  cp -r build/web/dist "$work/build/web/dist"
else
  echo "deb: there is no build/web/dist/index.html, so the packages have no explorer; make web builds it" >&2
fi
# debhelper gives the build a home of its own, without the cache of the compiler.
if command -v ccache >/dev/null; then
  CCACHE_DIR="$(ccache --get-config cache_dir)"
  export CCACHE_DIR
fi
log=build/deb/build.log
if ! (cd "$work" && dpkg-buildpackage --build=binary --no-sign -j"${JOBS:-$(nproc)}") >"$log" 2>&1; then
  tail -n 40 "$log" >&2
  echo "deb: dpkg-buildpackage failed; all that it said is in $log" >&2
  exit 1
fi
# The mail address and the number of the request are the uploader's, who sets them in control and changelog.
lintian --fail-on error --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog,initial-upload-closes-no-bugs \
  --allow-root build/deb/*.changes
cp build/deb/*.deb "$dist"
ls "$dist"/*"_$version"-*.deb
