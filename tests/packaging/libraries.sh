#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
#     sh libraries.sh TRIPLET EMULATOR OPENSSL-TARGET
#
# For tests/packaging/port, within the system that it makes: builds what criproxy needs from
# Debian's sources, for a machine of which no Debian archive has the libraries, as shared ones
# in /usr/TRIPLET, where the cross compiler looks for headers and libraries by itself.
# What the tests have no use for is left out of them (tools, documents, HTTP/2 of libcurl).
# The exit status is that of the first build that fails; its output ends standard output.
set -eu
triplet=$1 emulator=$2 openssl=$3
prefix=/usr/$triplet
jobs=$(nproc)
# Some builds take these from the environment, the others are told below.
export CC="$triplet-gcc" AR="$triplet-ar" RANLIB="$triplet-ranlib" CFLAGS='-O2 -g0 -fPIC'
export PKG_CONFIG_LIBDIR="$prefix/lib/pkgconfig" ACLOCAL_PATH=/usr/share/aclocal

# shellcheck source=/dev/null
. /etc/os-release
mkdir /tmp/libraries
cd /tmp/libraries
cat >cross.cmake <<END
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${triplet%%-*})
set(CMAKE_C_COMPILER $triplet-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR $emulator)
set(CMAKE_FIND_ROOT_PATH $prefix)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
END
cat >cross.meson <<END
[binaries]
c = '$triplet-gcc'
ar = '$triplet-ar'
strip = '$triplet-strip'
[host_machine]
system = 'linux'
cpu_family = '${triplet%%-*}'
cpu = '${triplet%%-*}'
endian = 'big'
END

# obtain PACKAGE: unpacks its source into a folder of its name, with Debian's patches.
obtain() {
    for release in "$VERSION_CODENAME" trixie; do
        ! apt-get source -q "$1/$release" || return 0
    done
    # A mirror may lack a part of it: what its authors have released does, or a copy of that.
    if [ "$1" = wslay ]; then
        obtain aria2
        mv aria2-*/deps/wslay wslay-0
    else
        tar --extract --file "$1"_*.orig.tar.?z
    fi
}

# In the folder of a source package; each of these is its own ways of being built.
with_cmake() {
    cmake -G Ninja -B cross --toolchain ../cross.cmake -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib -DBUILD_SHARED_LIBS=ON "$@"
    cmake --build cross --parallel "$jobs"
    cmake --install cross
}

with_configure() {
    ./configure --host="$triplet" --prefix="$prefix" --disable-static "$@"
}

# Patches change what autoconf reads: with one date for all files nothing is made anew by it.
one_date() {
    find . -type f -exec touch -d '2020-01-01' {} +
}

build_openssl() {
    env -u CC -u AR -u RANLIB -u CFLAGS ./Configure "$openssl" shared no-asm no-tests \
        --cross-compile-prefix="$triplet-" --prefix="$prefix" --libdir=lib --openssldir=/usr/lib/ssl
    env -u CC -u AR -u RANLIB -u CFLAGS make -j"$jobs" build_libs
    make install_dev
}

build_libevent() {
    one_date
    with_configure --disable-samples --disable-libevent-regress --disable-debug-mode
    make -j"$jobs"
    make install
}

build_libcbor() {
    with_cmake -DWITH_EXAMPLES=OFF
}

build_utf8proc() {
    with_cmake
}

build_cmocka() {
    with_cmake
}

build_c_ares() {
    with_cmake -DCARES_STATIC=OFF -DCARES_BUILD_TOOLS=OFF
}

build_curl() {
    with_cmake -DHTTP_ONLY=ON -DBUILD_CURL_EXE=OFF -DBUILD_TESTING=OFF -DENABLE_MANUAL=OFF \
        -DCURL_USE_OPENSSL=ON -DCURL_USE_LIBSSH2=OFF -DUSE_LIBIDN2=OFF -DCURL_ZLIB=OFF
}

build_libinih() {
    meson setup --cross-file ../cross.meson --prefix="$prefix" --libdir=lib \
        -Ddefault_library=shared -Dwith_INIReader=false cross
    ninja -C cross install
}

# By hand, since the copy in another project's source installs nothing.
build_wslay() {
    [ -x configure ] || autoreconf --install
    with_configure
    # shellcheck disable=SC2086 # words
    "$CC" $CFLAGS -shared -Wl,-soname,libwslay.so.1 -DHAVE_CONFIG_H -I. -Ilib/includes \
        -o "$prefix/lib/libwslay.so.1" lib/wslay_*.c
    ln -sf libwslay.so.1 "$prefix/lib/libwslay.so"
    mkdir -p "$prefix/include/wslay"
    cp lib/includes/wslay/wslay.h lib/includes/wslay/wslayver.h "$prefix/include/wslay/"
}

build_http_parser() {
    make PREFIX="$prefix" library package install
}

build_hiredis() {
    make PREFIX="$prefix" install
}

build_libidn2() {
    one_date
    with_configure --disable-doc --disable-nls --with-included-libunistring
    make -C gl -j"$jobs"
    make -C unistring -j"$jobs"
    make -C lib -j"$jobs" install
    make install-pkgconfigDATA
}

build_libcoap3() {
    autoreconf --force --install
    with_configure --enable-dtls --with-openssl --disable-documentation --disable-examples \
        --disable-tests
    make -j"$jobs" install
}

apt-get update -q >apt.log 2>&1 || { cat apt.log; exit 1; }
for package in openssl libevent libcbor utf8proc cmocka c-ares curl libinih wslay http-parser \
    hiredis libidn2 libcoap3; do
    function=build_$(echo "$package" | tr - _)
    echo "libraries: $package"
    # In the background, since a condition would have the shell go on after what fails.
    (
        obtain "$package"
        cd "$package"-[0-9]*/
        "$function"
    ) >"$package.log" 2>&1 &
    wait $! || { tail -n 40 "$package.log"; exit 1; }
    rm -rf "${package:?}"-[0-9]*/
done
