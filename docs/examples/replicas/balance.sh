#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Which replicas are behind a balancer: asks each one's /readyz twice a second, and tells the balancer
# when that has changed.
#
#     balance.sh nftables ADDRESS REPLICA...    Linux itself, by rules of nftables
#     balance.sh nginx CONFIGURATION REPLICA... nginx, started with a copy of nginx.conf
#
# A replica that is named on a line of the file $OUT (/run/criproxy-out) gets no clients, as before it is
# drained. With nftables there is no connection tracking, so no table of clients which could be full: a
# client's address and port choose one of 12 buckets, and each bucket belongs to a replica that is
# ready. Buckets of replicas that stay are not moved when one goes away or comes back. Replicas see
# their clients' own addresses; their default route leads over this host.
set -eu
PORTS='5683, 5684'
READYZ_PORT=9684
BUCKETS=12
COPY=${COPY:-/run/criproxy-nginx.conf}
OUT=${OUT:-/run/criproxy-out}

# $1: address, $2: all replicas, $3: those that are ready
tell_nftables() {
    map=$(awk -v all="$2" -v ready="$3" -v buckets=$BUCKETS 'BEGIN {
        all_count = split(all, every, " ")
        ready_count = split(ready, good, " ")
        for (i = 1; i <= ready_count; i++) { is_ready[good[i]] = 1 }
        for (i = 0; i < buckets; i++) {
            own = every[i % all_count + 1]
            if (!(own in is_ready)) { own = good[int(i / all_count) % ready_count + 1] }
            printf("%s%d : %s", (i > 0 ? ", " : ""), i, own)
        }
    }')
    replicas=$(echo "$2" | sed 's/ /, /g')
    nft -f - <<END
table ip criproxy
delete table ip criproxy
table ip criproxy {
    chain balance {
        type filter hook prerouting priority raw; policy accept;
        ip daddr $1 udp dport { $PORTS } notrack ip daddr set jhash ip saddr . udp sport mod $BUCKETS seed 0x5eed map { $map }
        ip saddr { $replicas } udp sport { $PORTS } notrack
    }
    chain answers {
        type filter hook postrouting priority raw; policy accept;
        ip saddr { $replicas } udp sport { $PORTS } ip saddr set $1
    }
}
END
}

# $1: nginx.conf, $2: all replicas, $3: those that are ready
tell_nginx() {
    cp "$1" "$COPY.new"
    for replica in $2; do
        case " $3 " in
        *" $replica "*) ;;
        *) sed -i "s/server $replica:[0-9]*/& down/" "$COPY.new" ;;
        esac
    done
    mv "$COPY.new" "$COPY"
    if [ "$before" = none ]; then
        nginx -c "$COPY"
    else
        nginx -c "$COPY" -s reload
    fi
}

# One that is only slow has another second.
says_ready() {
    curl -fs -m 1 -o /dev/null "http://$1:$READYZ_PORT/readyz"
}

those_ready() {
    for replica in $1; do
        if ! grep -qsxF "$replica" "$OUT" && { says_ready "$replica" || says_ready "$replica"; }; then
            echo "$replica"
        fi
    done | tr '\n' ' ' | sed 's/ $//'
}

kind=$1 what=$2
shift 2
before=none
while :; do
    now=$(those_ready "$*")
    now=${now:-$*} # none is ready: then any is as good
    if [ "$now" != "$before" ]; then
        "tell_$kind" "$what" "$*" "$now"
        echo "ready: $now"
        before=$now
    fi
    sleep 0.5
done
