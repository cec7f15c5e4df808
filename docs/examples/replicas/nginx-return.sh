#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# For nginx.conf: what replicas send to clients is given to nginx, which sends it on from its own
# address. Once nginx has forgotten a client (proxy_timeout), as before a notification or a late
# answer, it goes to the client directly, with that address.
set -e
ip rule add fwmark 1 lookup 100
ip route add local 0.0.0.0/0 dev lo table 100
nft -f - <<'END'
table ip criproxy_nginx {
    set replicas {
        type ipv4_addr
        elements = { 198.51.100.11, 198.51.100.12, 198.51.100.13 }
    }
    chain to_nginx {
        type filter hook prerouting priority mangle; policy accept;
        ip saddr @replicas udp sport { 5683, 5684 } socket transparent 1 meta mark set 1
    }
    chain to_clients {
        type filter hook postrouting priority raw; policy accept;
        ip saddr @replicas udp sport { 5683, 5684 } ip saddr set 192.0.2.1
    }
}
END
