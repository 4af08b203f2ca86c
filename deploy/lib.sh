# shellcheck shell=bash
# What the scripts of this directory share; to be sourced.

# Says why the script ends, on one line, and ends it.
die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# Prints the Debian packages that are still needed, one a line; given "tests" or "bench",
# those that only the tests or the benchmarks need too.
missing_packages() {
    local pair
    command -v pkg-config >/dev/null || echo pkg-config
    command -v curl >/dev/null || echo curl
    for pair in libpq:libpq-dev libcrypto:libssl-dev libmicrohttpd:libmicrohttpd-dev \
        libcurl:libcurl4-openssl-dev libzstd:libzstd-dev; do
        pkg-config --exists "${pair%%:*}" 2>/dev/null || echo "${pair#*:}"
    done
    compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || echo postgresql
    # An independent reader of signed tokens; it belongs to Debian's Python, whatever else is on the PATH.
    [[ ${1:-} != tests ]] || /usr/bin/python3 -c 'import jwcrypto' 2>/dev/null || echo python3-jwcrypto
    # Makes the virtual environments of an example of docs/receivers, and of deploy/validate-answers.
    [[ ${1:-} != tests ]] || /usr/bin/python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
    # The console is tested in a real browser, by a driver of the same version.
    if [[ ${1:-} == tests ]] && ! { command -v chromium-headless-shell && command -v chromedriver; } >/dev/null; then
        printf '%s\n' chromium-headless-shell chromium-driver
    fi
    if [[ ${1:-} == bench ]]; then
        command -v wrk >/dev/null || echo wrk
        command -v openssl >/dev/null || echo openssl
    fi
}

# Installs what is missing, and nothing when nothing is; takes what missing_packages takes.
install_packages() {
    local -a packages as_root=()
    mapfile -t packages < <(missing_packages "$@")
    ((${#packages[@]})) || return 0
    command -v apt-get >/dev/null ||
        die "these are missing, and there is no apt-get to install them with: ${packages[*]}"
    if ((EUID != 0)); then
        command -v sudo >/dev/null ||
            die "these are missing: ${packages[*]}; run as root, or install sudo"
        as_root=(sudo)
    fi
    printf 'Installing from Debian: %s\n' "${packages[*]}"
    local log
    log=$(mktemp)
    if ! { "${as_root[@]}" apt-get update &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get install --yes --no-install-recommends "${packages[@]}"; } >"$log" 2>&1; then
        die "cannot install ${packages[*]}: $(tail -n 1 "$log") (all of it is in $log)"
    fi
    rm -f "$log"
    mapfile -t packages < <(missing_packages "$@")
    ((${#packages[@]} == 0)) || die "still missing after installing: ${packages[*]}"
}

# Has the compiler keep the memory that it frees, in large pages where the kernel has them: a module takes a tenth to a
# sixth less processor time. It takes a command that builds; other C libraries than glibc know nothing of it.
compiling() {
    local malloc=glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=1073741824
    malloc+=:glibc.malloc.trim_threshold=1073741824:glibc.malloc.top_pad=67108864
    GLIBC_TUNABLES=$malloc "$@"
}

# Refuses a Swift that cannot build this.
require_swift() {
    local version
    command -v swift >/dev/null || die "swift is not on the PATH; install Swift 6.2 or later (https://www.swift.org/install)"
    version=$(swift --version 2>/dev/null | grep -oE 'Swift version [0-9]+\.[0-9]+' | grep -oE '[0-9]+\.[0-9]+') ||
        die "cannot tell the version of $(command -v swift)"
    [[ $(printf '6.2\n%s\n' "$version" | sort -V | head -n 1) == 6.2 ]] ||
        die "Swift 6.2 or later is needed; $(command -v swift) is $version"
}

# As root, makes the account as which root has the service and its PostgreSQL run, unless there is one.
make_account() {
    local -a group=(--user-group)
    ((EUID == 0)) || return 0
    ! getent passwd rightful >/dev/null || return 0
    command -v useradd >/dev/null ||
        die "there is no user 'rightful' to serve as, and no useradd to make it with: make it, or start as another user than root"
    ! getent group rightful >/dev/null || group=(--gid rightful)
    useradd --system "${group[@]}" --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin rightful ||
        die "cannot make the user 'rightful', as which root serves"
}
