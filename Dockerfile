# SPDX-License-Identifier: BSD-2-Clause
# The image of criproxyd: what runs, installed from the packages that the first stage
# makes. It runs as nobody's user, writes nothing but to /run/criproxy, and has its
# configuration in /etc/criproxy.
#
#     docker build -t criproxyd .
#     docker run --read-only --cap-drop ALL -p 127.0.0.1:5683:5683/udp criproxyd
#
# The stage lab has the tools and libcoap's, for compose.yaml.
ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${BASE} AS packages
COPY scripts/deps /src/scripts/deps
RUN /src/scripts/deps package
COPY . /src
WORKDIR /src
RUN cmake --preset package >/dev/null \
    && cmake --build build/package \
    && cpack --config build/package/CPackConfig.cmake -B /packages \
    && rm -rf /packages/_CPack_Packages

FROM ${BASE} AS lab
RUN --mount=type=bind,from=packages,source=/packages,target=/packages \
    apt-get --option=Acquire::Retries=5 update --quiet=2 \
    && apt-get --option=Acquire::Retries=5 install --yes --quiet=2 --no-install-recommends \
        libcoap3-bin /packages/criproxy-tools_*.deb \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*
USER 5683:5683
CMD ["sh"]

FROM ${BASE} AS criproxyd
# The user first: with the same number in every image, for who mounts keys.
RUN --mount=type=bind,from=packages,source=/packages,target=/packages \
    groupadd --gid 5683 criproxy \
    && useradd --uid 5683 --gid 5683 --no-create-home --home-dir / --shell /usr/sbin/nologin \
        criproxy \
    && apt-get --option=Acquire::Retries=5 update --quiet=2 \
    && apt-get --option=Acquire::Retries=5 install --yes --quiet=2 --no-install-recommends systemd-standalone-sysusers \
        /packages/libcri0_*.deb /packages/criproxyd_*.deb \
    && install -d -o criproxy -g criproxy -m 0750 /run/criproxy \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/* /usr/lib/systemd/system/criproxyd*
USER 5683:5683
EXPOSE 5683/udp 5684/udp 5683/tcp 5684/tcp
LABEL org.opencontainers.image.title="criproxyd" \
      org.opencontainers.image.description="CoAP forward proxy that speaks Constrained Resource Identifiers" \
      org.opencontainers.image.licenses="BSD-2-Clause"
# Writable where the root is not; a volume of its own, or a tmpfs, will do.
VOLUME /run/criproxy
HEALTHCHECK --interval=30s --timeout=5s --start-period=5s --retries=3 \
    CMD ["criproxyctl", "status"]
ENTRYPOINT ["/usr/sbin/criproxyd"]
# All addresses of the container: who may reach them is for the network it is put into.
CMD ["-c", "/etc/criproxy/criproxyd.conf", "--set", "admin.socket=/run/criproxy/control", \
     "--listen", "coap://0.0.0.0:5683"]
