# shellcheck shell=bash
# Sourced by the scripts beside it that fetch what Debian has not from PyPI: DEPS_DIR, where that goes, and how it
# gets there whole. They define say and die.
readonly DEPS_DIR=${LOCKSTEP_DEPS_DIR:-${HOME:?HOME is not set; set LOCKSTEP_DEPS_DIR}/.cache/lockstep}

# unpack_wheels FOLDER NAME REQUIREMENT…: fetches wheels, each with its sum, and unpacks them into a
# new FOLDER. pip checks the sums.
unpack_wheels() {
  local folder=$1 name=$2 wheel
  shift 2
  mkdir "$folder"
  printf '%s\n' "$@" >"$folder/requirements.txt"
  # A venv of its own: Debian's pip may not install into the system's Python (PEP 668).
  python3 -m venv "$folder/venv" || die "python3 could not make a virtual environment (is python3-venv installed?)"
  "$folder/venv/bin/pip" download -q --disable-pip-version-check --no-deps --require-hashes \
    --only-binary=:all: -r "$folder/requirements.txt" -d "$folder" >&2 ||
    die "pip could not fetch the wheels of $name (its reason is above). Is there a network? pip reads its index from pip.conf or PIP_INDEX_URL."
  for wheel in "$folder"/*.whl; do
    "$folder/venv/bin/python" -m zipfile -e "$wheel" "$folder/unpacked"
  done
}

require_x86_64() {
  [[ $(uname -m) == x86_64 ]] || die "found a $(uname -m) processor: the wheels of $1 are for x86_64. $2"
}

# Makes WORK, a folder beside what is made, so that one rename makes that visible, whole. Removed at the end. The
# folders to remove are kept apart from WORK, which the caller's environment may name something else by.
work_folders=()
new_work_folder() {
  mkdir -p "$DEPS_DIR"
  WORK=$(mktemp -d "$DEPS_DIR/.setup.XXXXXX")
  work_folders+=("$WORK")
  trap 'rm -rf "${work_folders[@]}"' EXIT
}

# into_place MADE DESTINATION TEST: another setup may have been first.
into_place() {
  [[ -d $2 ]] && ! "$3" && rm -rf "$2"
  mv -T "$1" "$2" 2>/dev/null || "$3" || die "could not move $1 to $2"
}
