# SPDX-License-Identifier: BSD-2-Clause
# The image of criproxyd: the program, its libraries, certificates and a configuration, and nothing
# else, not even a shell. It runs as a user of its own, writes nothing but to /run/criproxy, and has
# its configuration in /etc/criproxy. libcoap (upstream.engine) is left out of it, and so is libcurl,
# without which there are no HTTP servers as targets: with --build-arg ROOT=web it is there.
#
#     docker build -t criproxyd .
#     docker run --read-only --cap-drop ALL -p 127.0.0.1:5683:5683/udp criproxyd
#
# The stage lab has the tools and libcoap's, for compose.yaml; packages has Debian packages.
ARG BASE=docker.io/library/debian:trixie-slim
ARG ROOT=small

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

# libidn2 is linked in, with the sixth of libunistring that it needs: that saves 1.8 MiB.
FROM packages AS roots
RUN apt-get --option=Acquire::Retries=5 update --quiet=2 \
    && apt-get --option=Acquire::Retries=5 install --yes --quiet=2 --no-install-recommends \
        ca-certificates libunistring-dev \
    && cmake --preset package -B build/image -DCRI_BUILD_TOOLS=OFF -DCRI_WITH_LIBCOAP=OFF \
        -DCMAKE_C_FLAGS=-fno-asynchronous-unwind-tables \
        -Dpkgcfg_lib_IDN2_idn2="$(gcc -print-file-name=libidn2.a)" \
        -DCMAKE_C_STANDARD_LIBRARIES="$(gcc -print-file-name=libunistring.a)" >/dev/null \
    && cmake --build build/image \
    && DESTDIR=/installed cmake --install build/image --strip >/dev/null \
    && packaging/image/make-root /roots/small /installed \
    && packaging/image/make-root /roots/web /installed \
        "$(ldconfig -p | sed -n '/libcurl\.so\.4/{s/.* //p;q}')"

FROM scratch AS criproxyd
ARG ROOT
COPY --from=roots /roots/${ROOT} /
USER 5683:5683
EXPOSE 5683/udp 5684/udp 5683/tcp 5684/tcp
LABEL org.opencontainers.image.title="criproxyd" \
      org.opencontainers.image.description="CoAP forward proxy that speaks Constrained Resource Identifiers" \
      org.opencontainers.image.licenses="BSD-2-Clause"
# Writable where the root is not; a volume of its own, or a tmpfs, will do.
VOLUME /run/criproxy
# An image in OCI's own format has no such field: there, compose.yaml or the pod says the same.
HEALTHCHECK --interval=30s --timeout=5s --start-period=5s --retries=3 \
    CMD ["criproxyctl", "status"]
ENTRYPOINT ["/usr/sbin/criproxyd"]
# All addresses of the container: who may reach them is for the network it is put into.
CMD ["-c", "/etc/criproxy/criproxyd.conf", "--set", "admin.socket=/run/criproxy/control", \
     "--listen", "coap://0.0.0.0:5683"]
