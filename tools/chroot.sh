#!/usr/bin/env bash
# A Debian of another suite in a folder, to build and test posenc with its PyTorch. As root; sid takes 3 GB.
#
#   tools/chroot.sh sid /srv/sid             makes it: tools/packages.txt [build], transformers, onnx, onnxruntime
#   tools/chroot.sh sid /srv/sid COMMAND...  runs a command in it, in this source tree, which is /posenc there
#
# Arguments for mmdebstrap, one per line, are read from $MMDEBSTRAP_OPTIONS, such as
# --aptopt=Acquire::Check-Valid-Until "false" for a mirror that stands still.
set -euo pipefail

root="$(cd "$(dirname "$0")/.." && pwd)"
if (($# < 2)); then
  sed -n '2,8s/^# \{0,1\}//p' "$0"
  exit 2
fi
suite="$1" folder="$2"
shift 2

# The first word of each line of [build], of alternatives the first name.
packages() {
  sed -n '/^\[build\]/,/^\[check\]/s/^\([a-z0-9][a-z0-9.+-]*\).*/\1/p' "$root/tools/packages.txt"
  printf '%s\n' ca-certificates git python3-onnx python3-onnxruntime python3-transformers
}

make() {
  command -v mmdebstrap >/dev/null || { echo "chroot: mmdebstrap is missing; apt-get install mmdebstrap" >&2; exit 1; }
  local options=()
  [[ -n "${MMDEBSTRAP_OPTIONS:-}" ]] && mapfile -t options <<<"$MMDEBSTRAP_OPTIONS"
  mmdebstrap --variant=minbase --aptopt='APT::Install-Recommends "false"' "${options[@]}" \
    --include="$(packages | paste -sd,)" "$suite" "$folder"
}

# In mounts of its own, which end with the command.
run() {
  mkdir -p "$folder/posenc"
  # shellcheck disable=SC2016  # expanded by the inner shells
  unshare --mount bash -c '
    mount --bind "$0" "$1/posenc" && mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev"
    exec chroot "$1" env HOME=/root PATH=/usr/bin:/usr/sbin LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 \
      sh -c '\''cd /posenc && exec "$@"'\'' sh "${@:2}"' "$root" "$folder" "$@"
}

[[ -x "$folder/usr/bin/python3" ]] || make
(($# == 0)) || run "$@"
