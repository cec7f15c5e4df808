# SPDX-License-Identifier: BSD-2-Clause
# The part of tests/packaging/run that is about the image. There is no container engine:
# each service of compose.yaml gets a network namespace on a bridge, a root that is
# mounted read-only, and the image's user without capabilities.
# shellcheck shell=bash

lab=criproxy-$$
lab_pids=()
root_criproxyd= root_lab=

end_lab() {
    local pid name depth below
    for pid in "${lab_pids[@]}"; do
        # The job is a shell; below it are unshare and the service, which outlives both:
        # a change of its user makes the kernel forget whose death it was to die with.
        below=$pid
        for depth in unshare service; do
            pid=$(tr -d ' ' <"/proc/$pid/task/$pid/children" 2>/dev/null || true)
            [[ -n $pid ]] || break
            below="$pid $below"
        done
        # shellcheck disable=SC2086 # several words are several processes
        kill -KILL $below 2>/dev/null || true
    done
    for name in proxy origin client bridge; do
        ip netns delete "$lab-$name" 2>/dev/null || true
    done
    if [[ -d $kept ]]; then
        images umount --all >/dev/null 2>&1 || true
    fi
}

# add_host NAME NUMBER: a namespace with the address 10.0.0.NUMBER. Without a broadcast address
# getifaddrs() gives its own as one, to which libcoap 4.3.4 answers nothing.
add_host() {
    local host=$lab-$1
    ip netns add "$host"
    ip -n "$host" link set lo up
    ip -n "$lab-bridge" link add "to-$1" type veth peer name eth0 netns "$host"
    ip -n "$lab-bridge" link set "to-$1" master bridge up
    ip -n "$host" address add "10.0.0.$2/24" broadcast + dev eth0
    ip -n "$host" link set eth0 up
    printf '10.0.0.%s %s\n' "$2" "$1" >>"$work/hosts"
}

make_network() {
    printf '127.0.0.1 localhost\n' >"$work/hosts"
    ip netns add "$lab-bridge"
    ip -n "$lab-bridge" link add bridge type bridge
    ip -n "$lab-bridge" link set bridge up
    add_host proxy 2
    add_host origin 3
    add_host client 4
}

# mount_image IMAGE: its tree, read-only, as root_IMAGE.
mount_image() {
    local container
    container=$(images from "localhost/$1")
    images inspect --type image "localhost/$1" >"$work/$1.json"
    printf -v "root_$1" '%s' "$(images mount "$container")"
}

# in_container HOST ROOT COMMAND...: /run/criproxy is a volume of the host's.
in_container() {
    install -d -o 5683 -g 5683 -m 0750 "$work/volume-$1"
    ip netns exec "$lab-$1" unshare --mount --pid --fork --kill-child --ipc --uts \
        sh -euc '
            hosts=$1 volume=$2 root=$3
            shift 3
            mount --make-rprivate /
            mount --bind "$root" "$root"
            mount -o remount,ro,bind "$root"
            mount --bind "$hosts" "$root/etc/hosts"
            mount -t proc proc "$root/proc"
            mount -t tmpfs -o mode=755 tmpfs "$root/dev"
            : >"$root/dev/null"
            mount --bind /dev/null "$root/dev/null"
            mount -t tmpfs -o mode=755 tmpfs "$root/run"
            mkdir "$root/run/criproxy"
            mount --bind "$volume" "$root/run/criproxy"
            exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
                setpriv --no-new-privs chroot --userspec=5683:5683 --groups= "$root" "$@"
        ' sh "$work/hosts" "$work/volume-$1" "${@:2}"
}

# in_service PID ROOT COMMAND...: in the namespaces of a service that runs, as an engine's exec.
in_service() {
    local first=$1 root=$2 depth
    # Below the shell of the job: unshare, and its child, which is process 1 there.
    for depth in unshare first; do
        first=$(tr -d ' ' <"/proc/$first/task/$first/children")
        [[ -n $first ]] || die "no process $depth"
    done
    nsenter --target "$first" --mount --pid --net --ipc --uts \
        env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        setpriv --no-new-privs chroot --userspec=5683:5683 --groups= "$root" "${@:3}"
}

# command_of SERVICE IMAGE: into the array `words`.
command_of() {
    mapfile -d '' -t words < <("$here/compose.py" command compose.yaml "$1" "$work/$2.json")
    [[ ${#words[@]} -gt 0 ]] || die "compose.yaml: no command for $1"
}

start_service() {
    local root=root_$2
    command_of "$1" "$2"
    in_container "$1" "${!root}" "${words[@]}" >"$work/$1.log" 2>&1 </dev/null &
    lab_pids+=($!)
    disown
}

# What the client has got, and what the two others have said.
die_in_lab() {
    tail -n 20 "$work/proxy.log" "$work/origin.log"
    die "client: $1"
}

# has_traced COUNT: so many requests were answered with content.
has_traced() {
    [[ $(grep -c 'outcome.*2\.05' "$work/proxy.log") -eq $1 ]] || {
        cat "$work/proxy.log"
        return 1
    }
}

# Issue 16: below 15 MiB, with a folder for the socket that is the user's.
test_minimal() {
    local bytes
    bytes=$(find "$root_criproxyd" -type f -printf "%s\n" | awk "{ sum += \$1 } END { print sum }")
    say "the image has $((bytes / 1024)) KiB"
    [[ $bytes -lt $((15 << 20)) ]] || die "the image has $bytes bytes"
    [[ $(stat --format '%u %a' "$root_criproxyd/run/criproxy") == "5683 750" ]] ||
        die "/run/criproxy is not the user's"
    [[ ! -e $root_criproxyd/bin/sh && ! -e $root_criproxyd/usr/bin/sh ]] || die "there is a shell"
}

test_image() {
    local healthy
    say "the lab of compose.yaml"
    make_network
    mount_image criproxyd
    mount_image lab
    test_minimal
    start_service proxy criproxyd
    start_service origin lab
    "$here/compose.py" check compose.yaml "$work/criproxyd.json" || die "see above"
    await "the proxy does not start" grep -q ' ready ' "$work/proxy.log"
    # 5683 of any address, as the kernel lists it.
    await "the origin does not start" ip netns exec "$lab-origin" grep -q ':1633 ' /proc/net/udp

    mapfile -d '' -t healthy < <("$here/compose.py" health compose.yaml)
    quietly in_service "${lab_pids[0]}" "$root_criproxyd" "${healthy[@]}"
    # The same where no proxy runs has to fail.
    if in_container client "$root_criproxyd" "${healthy[@]}" >/dev/null 2>&1; then
        die "the healthcheck is green without a proxy"
    fi
    if in_container proxy "$root_criproxyd" criproxyd --set log.file=/etc/criproxy/new \
        --listen coap://127.0.0.1:0 >"$work/output" 2>&1 || ! grep -q 'key=log.file' "$work/output"; then
        die "the root can be written: $(cat "$work/output")"
    fi

    command_of client lab
    quietly in_container client "$root_lab" "${words[@]}"
    grep -q '^\[-1, \["origin"\]' <(sed -n 's/^by Proxy-Cri: //p' "$work/output") ||
        die_in_lab "$(cat "$work/output")"
    [[ $(grep -c -E '^[0-9]+$' "$work/output") -eq 2 ]] || die_in_lab "$(cat "$work/output")"
    await "the proxy's log has not two answers" has_traced 2
    end_lab
    lab_pids=()
}
