# SPDX-License-Identifier: BSD-2-Clause
# What tests/packaging/debian and port do in systems of their own; both have a folder $work.
# Mounts are the namespaces' own, so there is nothing below a root but plain files.
# shellcheck shell=bash disable=SC2154 # work is the caller's

# have_namespaces: whether this user can have what enter() asks for.
have_namespaces() {
    [[ $(id -u) -eq 0 ]] && unshare --mount --pid --fork true 2>/dev/null
}

# copy_tree FOLDER: the files of this tree as they are now, without what builds left in it.
copy_tree() {
    local names=$work/names
    git ls-files -z --cached --others --exclude-standard >"$names" 2>/dev/null ||
        find . -path ./build -prune -o -path ./.git -prune -o -type f -print0 >"$names"
    mkdir -p "$1"
    tar --create --null --files-from="$names" --ignore-failed-read | tar --extract --directory="$1"
}

# enter ROOT COMMAND...: in the tree, as if this were the machine; the network is shared.
enter() {
    local root=$1
    shift
    # shellcheck disable=SC2016 # the arguments are the inner shell's
    unshare --mount --pid --fork --kill-child sh -euc '
        mount --make-rprivate /
        mount --bind "$1" "$1" # a mount point, as what asks for namespaces in there expects
        mount -t proc proc "$1/proc"
        mount --rbind /dev "$1/dev"
        mount -t tmpfs tmpfs "$1/tmp"
        cp -L /etc/resolv.conf "$1/etc/resolv.conf" 2>/dev/null || :
        root=$1
        shift
        exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
            ${http_proxy:+http_proxy="$http_proxy"} \
            chroot "$root" sh -c "cd /criproxy && exec \"\$@\"" sh "$@"' sh "$root" "$@"
}
