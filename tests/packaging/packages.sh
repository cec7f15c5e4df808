# SPDX-License-Identifier: BSD-2-Clause
# The part of tests/packaging/run that is about the .deb files.
# shellcheck shell=bash

# What lintian may say: cpack adds these calls to a package with a library.
readonly lintian_known='maintscript-calls-ldconfig'

# Copies $packages out of the image's first stage, whose build folder stays mounted at
# $stage.
fetch_packages() {
    local container
    container=$(images from localhost/packages)
    stage=$(images mount "$container")
    packages=$work/first/packages
    mkdir "$work/first"
    cp -r "$stage/packages" "$packages"
    version=$(dpkg-deb --field "$packages"/criproxyd_*.deb Version)
    later=$version+1
}

in_stage() {
    chroot "$stage" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

test_lintian() {
    local said
    said=$(lintian --allow-root --suppress-tags "$lintian_known" "$packages"/*.deb 2>&1) || true
    [[ -z $said ]] || die "lintian: $said"
}

# Paths but for folders; compressed files as they were.
list_packages() {
    local package
    for package in "$packages"/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -t
    done | sed -n 's/\.gz$//; s/^\.//; /\/$/!p' | sort
}

test_same_tree() {
    in_stage env DESTDIR=/tree cmake --install /src/build/package >/dev/null
    diff <(list_packages) <(cd "$stage/tree" && find . ! -type d | sed 's/^\.//' | sort) ||
        die "the packages do not hold what cmake --install does"
}

test_development() {
    cp "$here/../install/consumer/consumer.c" "$stage/tmp/consumer.c"
    quietly in_stage sh -c 'dpkg --install /packages/libcri0_*.deb /packages/libcri-dev_*.deb &&
        cd /tmp && gcc -o consumer consumer.c $(pkg-config --cflags --libs libcri) && ./consumer'
    in_stage readelf -d /tmp/consumer | grep 'libcri\.so\.0' >/dev/null || die "consumer: not shared"
}

# A tree that boots, with the packages of both versions in /packages, and what they need.
make_root() {
    local upgrade=$work/upgrade package
    root=$work/root
    mkdir "$root"
    tar -C "$root" -xf "$kept/$suite.tar"
    cp -r "$packages" "$root/packages"
    for package in "$packages"/*.deb; do
        rm -rf "$upgrade"
        dpkg-deb --raw-extract "$package" "$upgrade"
        sed -i -E "/^(Version|Depends):/s/\\b${version//./\\.}\\b/$later/" "$upgrade/DEBIAN/control"
        dpkg-deb --root-owner-group --build "$upgrade" "$root/packages" >/dev/null
    done
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    echo 'Acquire::Retries "5";' >"$root/etc/apt/apt.conf.d/90retries"
    quietly chroot "$root" apt-get update
    quietly chroot "$root" env DEBIAN_FRONTEND=noninteractive \
        apt-get install --yes --no-install-recommends systemd-sysv
    quietly chroot "$root" apt-get install --yes --download-only \
        /packages/libcri0_"$version"_amd64.deb /packages/criproxyd_"$version"_amd64.deb
    rm "$root/etc/resolv.conf"
}

start_root() {
    local launcher
    unshare --mount --pid --fork --kill-child --cgroup --uts --ipc --net \
        "$here/boot" "$root" >"$work/boot.log" 2>&1 </dev/null &
    launcher=$!
    await "no process 1" grep -q . "/proc/$launcher/task/$launcher/children"
    init=$(tr -d ' ' <"/proc/$launcher/task/$launcher/children")
    await "systemd does not boot" has_booted
    # With a unit that failed, what fails below may not be ours.
    [[ $state == running ]] || die "systemd came up $state: $(on systemctl --failed --no-legend --plain
        on journalctl --boot --priority warning --no-pager --output cat | tail -n 20)"
}

# Whether its boot has ended, and how: into $state.
has_booted() {
    state=$(on systemctl is-system-running --wait) || [[ $state == degraded ]] || {
        tail -n 20 "$work/boot.log"
        return 1
    }
}

on() {
    nsenter --target "$init" --mount --pid --net --uts --ipc --cgroup \
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"
}

apt() {
    quietly on apt-get --option=Dpkg::Use-Pty=0 --yes --no-install-recommends "$@"
}

install_version() {
    apt install "/packages/libcri0_$1_amd64.deb" "/packages/criproxyd_$1_amd64.deb" \
        "/packages/criproxy-tools_$1_amd64.deb"
}

main_pid() {
    on systemctl show --property MainPID --value criproxyd
}

# One request to the proxy itself, over the loopback of the namespace: CON, so that it is
# repeated where the machine is slow.
ask() {
    on coapbench load --proxy 127.0.0.1:5683 --target 127.0.0.1:5683 --form direct --no-check \
        --clients 1 --count 1 --warmup 0s
}

files_of_root() {
    (cd "$root" && find etc usr opt srv var ! -path 'var/log/*' ! -path 'var/cache/*' \
        ! -path 'var/lib/apt/*' ! -path 'var/lib/systemd/*' ! -path 'var/lib/dpkg/*' | sort)
}

test_install() {
    # The packages that criproxyd needs first: what they bring is not ours to purge.
    local dependencies
    dependencies=$(on dpkg-deb --field /packages/criproxyd_"$version"_amd64.deb Depends | tr ',' '\n' |
        sed -n 's/^ *\(lib[a-z0-9.+-]*\).*/\1/p' | grep -v '^libcri0$')
    # shellcheck disable=SC2086
    apt install $dependencies \
        "$(on dpkg-deb --field /packages/libcri0_"$version"_amd64.deb Depends | grep -o 'libcbor[0-9.]*')"
    files_of_root >"$work/before"
    install_version "$version"
    on systemctl --quiet is-active criproxyd || die "installed, not started"
    on systemctl --quiet is-enabled criproxyd || die "installed, not enabled"
    [[ $(owner) == criproxy ]] || die "runs as $(owner)"
    quietly ask
    quietly on systemctl status criproxyd
    quietly on criproxyctl status
    # So may users of the groups for that, each as far as it goes, and no other user.
    quietly on runuser --user nobody --group criproxy-operate -- criproxyctl log-level info
    quietly on runuser --user nobody --group criproxy-look -- criproxyctl status
    if on runuser --user nobody --group criproxy-look -- criproxyctl log-level info >/dev/null 2>&1; then
        die "who may look can operate"
    fi
    local group
    for group in nogroup criproxy; do
        if on runuser --user nobody --group "$group" -- criproxyctl status >/dev/null 2>&1; then
            die "the group $group may use the control socket"
        fi
    done
    if on runuser --user nobody --group criproxy-operate -- ls /etc/criproxy/tls >/dev/null 2>&1; then
        die "who may operate can read keys"
    fi
}

owner() {
    on stat --format %U "/proc/$(main_pid)"
}

test_reload() {
    local pid
    pid=$(main_pid)
    on sh -c 'echo "[log]
level = debug" >>/etc/criproxy/criproxyd.conf'
    quietly on systemctl reload criproxyd
    await "no word of the reload" on sh -c 'journalctl --unit criproxyd | grep -q ": reloaded"'
    on cp /etc/criproxy/criproxyd.conf /tmp/good
    on sed -i 's/^level = debug/level = loud/' /etc/criproxy/criproxyd.conf
    if on systemctl reload criproxyd 2>/dev/null; then
        die "a reload with a mistake in the configuration succeeds"
    fi
    await "the journal does not tell file and line of the mistake as an error" on sh -c \
        'journalctl --unit criproxyd --priority err | grep -q "criproxyd.conf:[0-9]*: .log. level"'
    on systemctl status criproxyd | grep -q "Status: .*criproxyd.conf:[0-9]*: .log. level" ||
        die "systemctl does not tell why the reload was refused"
    on cp /tmp/good /etc/criproxy/criproxyd.conf
    on sh -c 'printf "[limits]\nclients = 77\n" >>/etc/criproxy/criproxyd.conf'
    if on systemctl reload criproxyd 2>/dev/null; then
        die "a reload of a key that needs a restart succeeds"
    fi
    on systemctl status criproxyd | grep -q "Status: .*limits.clients" ||
        die "systemctl does not tell which key needs a restart"
    on cp /tmp/good /etc/criproxy/criproxyd.conf
    quietly on systemctl reload criproxyd
    [[ $(main_pid) == "$pid" ]] || die "a reload has changed the process"
    quietly ask
}

test_upgrade() {
    local pid
    pid=$(main_pid)
    install_version "$later"
    on systemctl --quiet is-active criproxyd || die "upgraded, not running"
    [[ $(main_pid) != "$pid" ]] || die "upgraded, not restarted"
    on grep -q '^level = debug' /etc/criproxy/criproxyd.conf || die "the upgrade took the configuration"
    quietly ask
    # What an operator has disabled stays disabled after an upgrade.
    quietly on systemctl disable --now criproxyd
    apt install --reinstall /packages/criproxyd_"$later"_amd64.deb
    if on systemctl --quiet is-active criproxyd || on systemctl --quiet is-enabled criproxyd; then
        die "upgraded, and on again"
    fi
    quietly on systemctl enable --now criproxyd
}

restarts() {
    on systemctl show --property NRestarts --value criproxyd
}

test_log_file() {
    on sed -i 's|^level = debug|file = /var/log/criproxy/criproxyd.log|' \
        /etc/criproxy/criproxyd.conf
    quietly on systemctl restart criproxyd
    await "no log in the file" on grep -q ' ready ' /var/log/criproxy/criproxyd.log
    on mv /var/log/criproxy/criproxyd.log /var/log/criproxy/criproxyd.log.1
    on systemctl kill --signal SIGUSR1 criproxyd
    await "no new log after SIGUSR1" on test -f /var/log/criproxy/criproxyd.log
    on sed -i '/^file = /d' /etc/criproxy/criproxyd.conf
    quietly on systemctl restart criproxyd
}

# systemd lets a service start five times in ten seconds, and these tests are quicker.
forget_starts() {
    on systemctl reset-failed criproxyd
}

# A process that is stopped feeds no watchdog: it is ended, and started again.
test_watchdog() {
    local before
    on mkdir -p /run/systemd/system/criproxyd.service.d
    on sh -c 'printf "[Service]\nWatchdogSec=3s\nLimitCORE=0\n" \
        >/run/systemd/system/criproxyd.service.d/watchdog.conf'
    on systemctl daemon-reload
    quietly on systemctl restart criproxyd
    before=$(restarts)
    on sh -c "kill -STOP $(main_pid)"
    await "the watchdog does not bite" eval '[[ $(restarts) -gt '"$before"' ]]'
    await "no restart after the watchdog" on systemctl --quiet is-active criproxyd
    quietly ask
    on rm -r /run/systemd/system/criproxyd.service.d
    on systemctl daemon-reload
}

# A configuration that is wrong stays so: one try, and the reason in the journal.
test_bad_start() {
    on cp /etc/criproxy/criproxyd.conf /tmp/good
    on sh -c 'printf "[log]\nlevel = loudest\n" >>/etc/criproxy/criproxyd.conf'
    if on systemctl restart criproxyd 2>/dev/null; then
        die "it starts with a mistake in the configuration"
    fi
    [[ $(restarts) -eq 0 ]] || die "a mistake in the configuration is tried again and again"
    [[ $(on systemctl show --property ActiveState --value criproxyd) == failed ]] ||
        die "with a mistake in the configuration it is not failed"
    await "the journal has no error" on sh -c \
        'journalctl --unit criproxyd --priority err | grep -q "level: expected.*loudest"'
    on cp /tmp/good /etc/criproxy/criproxyd.conf
    quietly on systemctl restart criproxyd
}

# With its sockets from systemd the service starts with the first request, and that request
# that comes while it is restarted waits for it.
test_socket_activation() {
    quietly on systemctl stop criproxyd
    quietly on systemctl start criproxyd.socket criproxyd-tcp.socket
    quietly ask
    on systemctl --quiet is-active criproxyd || die "answered, but the service is not active"
    await "the sockets were not inherited" on sh -c \
        'journalctl --unit criproxyd --boot | grep "listening.*inherited"'
    quietly on systemctl restart criproxyd
    quietly ask
    quietly on systemctl stop criproxyd.socket criproxyd-tcp.socket criproxyd
    quietly on systemctl start criproxyd
}

# libcurl is loaded by the first request for an HTTP target: in the sandbox, which is there by then.
test_http_library() {
    local pid
    pid=$(main_pid)
    if on grep -q libcurl "/proc/$pid/maps"; then
        die "libcurl is loaded before it is needed"
    fi
    await "libcurl is not loaded in the sandbox" on bash -c \
        "printf '\x40\x01\x00\x01\xdd\x16\x04http://127.0.0.1/' >/dev/udp/127.0.0.1/5683
        grep -q libcurl /proc/$pid/maps"
    quietly ask
}

# The keys of docs/guides/gateway.md, and DTLS by a socket as docs/guides/router.md has it.
test_dtls_socket() {
    local keys=/etc/criproxy/tls/psk
    on cp /etc/criproxy/criproxyd.conf /tmp/without-tls
    on sh -c "echo desk:000102030405060708090a0b0c0d0e0f |
        install -m 0640 -o root -g criproxy /dev/stdin $keys"
    on sh -c "printf '[tls]\npsk-file = $keys\n' >>/etc/criproxy/criproxyd.conf"
    quietly on systemctl stop criproxyd
    quietly on systemctl enable --now criproxyd-coaps.socket
    quietly on systemctl start criproxyd
    await "the socket for DTLS was not inherited" on sh -c \
        'journalctl --unit criproxyd --boot | grep "listening.*coaps:.*inherited"'
    quietly on systemctl disable --now criproxyd-coaps.socket criproxyd
    on rm "$keys"
    on cp /tmp/without-tls /etc/criproxy/criproxyd.conf
    quietly on systemctl enable --now criproxyd
}

test_purge() {
    apt remove criproxyd
    if on systemctl --quiet is-active criproxyd; then
        die "removed, still running"
    fi
    on test -f /etc/criproxy/criproxyd.conf || die "remove has taken the configuration"
    apt purge criproxyd libcri0 criproxy-tools
    [[ -z $(on dpkg-query --show --showformat '${Package} ' 'criprox*' libcri0 2>/dev/null) ]] ||
        die "dpkg remembers the packages"
    files_of_root >"$work/after"
    # The user stays, as Debian's policy wants it; so does dpkg's copy of passwd.
    local left
    left=$({ diff "$work/before" "$work/after" || true; } | grep -v -E \
        '^[0-9,]+[acd][0-9,]+$|etc/(passwd|group|shadow|gshadow)-$') || true
    [[ -z $left ]] || die "purged, but not gone: $left"
    [[ ! -e $root/var/log/criproxy ]] || die "purged, but its logs are there"
    [[ $(on systemctl list-unit-files --no-legend 'criproxyd*') == "" ]] || die "units are left"
}

test_packages() {
    fetch_packages
    say "lintian"
    test_lintian
    say "the same tree as cmake --install"
    test_same_tree
    say "a program built with libcri-dev"
    test_development
    make_root
    start_root
    say "installing in a Debian that has booted ($(on systemctl --version | head -n 1))"
    test_install
    say "reloading"
    test_reload
    say "upgrading"
    test_upgrade
    say "logging to a file"
    test_log_file
    say "starting it with a mistake"
    forget_starts
    test_bad_start
    say "stopping it, for the watchdog"
    forget_starts
    test_watchdog
    say "starting it by its sockets"
    forget_starts
    test_socket_activation
    say "asking it for an HTTP target"
    test_http_library
    say "starting it by its socket for DTLS"
    forget_starts
    test_dtls_socket
    say "removing and purging"
    test_purge
    kill -KILL "$init"
    init=
}
