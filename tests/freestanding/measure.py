#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""What the freestanding libcri takes on a Cortex-M3, and whether it works in 32 bits.

measure.py size     code and data of everything the profile has, linked, at -Os: at most SIZE_MAX
measure.py stack    the deepest way down from each function, by the compiler's figures
measure.py client   the same for docs/examples/device_client.c with what it uses: CLIENT_MAX; and
                    that the guide names the sources it takes
measure.py 32-bit   tests/freestanding/smoke.c, compiled by gcc -m32 and run

Exits with 77 where there is no such compiler.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CROSS = "arm-none-eabi-gcc"
MACHINE = ["-mcpu=cortex-m3", "-mthumb"]
FLAGS = ["-std=c11", "-Os", "-ffreestanding", "-ffunction-sections", "-fdata-sections",
         "-Wall", "-Wextra", "-Werror", "-DCRI_FREESTANDING",
         f"-I{ROOT}/lib/include", f"-I{ROOT}/lib/src"]
SIZE_MAX = 8192
STACK_MAX = 768
CLIENT_MAX = 6144
SKIPPED = 77
# The C library's, which every program has; nothing else may be asked of it.
FROM_LIBC = ["memcmp", "memcpy", "memmove", "memset"]
# What a constrained client is for: to decode, check, encode, build, and make options.
# cri_skip(), cri_decode_next(), cri_scheme_by_name() and cri_strerror() are in the library,
# too, and cost what they take where they are used.
PROFILE = """cri_decode cri_is_full cri_iter_init cri_iter_next cri_piece_init cri_piece_next
    cri_encode cri_options_init cri_options_next cri_scheme_by_number cri_version
    cri_builder_init cri_builder_scheme cri_builder_scheme_name cri_builder_discard
    cri_builder_rootless cri_builder_userinfo cri_builder_host_name cri_builder_host_ip
    cri_builder_port cri_builder_path cri_builder_segment cri_builder_query
    cri_builder_parameter cri_builder_fragment cri_builder_finish""".split()


def sources():
    """As lib/CMakeLists.txt lists them."""
    text = (ROOT / "lib/CMakeLists.txt").read_text(encoding="utf-8")
    names = re.search(r"set\(CRI_FREESTANDING_SOURCES([^)]*)\)", text)[1].split()
    return [ROOT / "lib/src" / f"{name}.c" for name in names]


def compile_all(compiler, flags, folder):
    objects = []
    for source in sources():
        objects.append(f"{folder}/{source.stem}.o")
        subprocess.run([*compiler, *FLAGS, *flags, "-c", source, "-o", objects[-1]], check=True,
                       cwd=folder)
    return objects


def size(folder):
    objects = compile_all([CROSS, *MACHINE], [], folder)
    return link_and_weigh("cri_decode", PROFILE, FROM_LIBC, objects, folder, SIZE_MAX)


def link_and_weigh(entry, kept, given, objects, folder, most):
    """The functions kept with what they use; whatever is not given is missing, and fails."""
    image = f"{folder}/image.elf"
    subprocess.run([CROSS, *MACHINE, "-nostdlib", f"-Wl,-e,{entry}", "-Wl,--gc-sections",
                    *(f"-Wl,-u,{name}" for name in kept),
                    *(f"-Wl,--defsym={name}=0" for name in given), *objects, "-o", image],
                   check=True)
    done = subprocess.run(["arm-none-eabi-size", image], stdout=subprocess.PIPE, check=True)
    code, data, zeroed = (int(word) for word in done.stdout.decode().split("\n")[1].split()[:3])
    print(f"{code} bytes of code and constants, at most {most}; "
          f"{data + zeroed} bytes of memory that is kept")
    return 0 if code <= most and data + zeroed == 0 else 1


def client(folder):
    guide = (ROOT / "docs/guides/microcontrollers.md").read_text(encoding="utf-8")
    named = set(re.search(r"^## The sources.*?```text\n(.*?)```", guide, re.S | re.M)[1].split())
    if named != {source.name for source in sources()}:
        sys.exit("the guide's sources are not those of lib/CMakeLists.txt: " + " ".join(sorted(named)))
    if f"at most\n{CLIENT_MAX:,} bytes" not in guide:
        sys.exit(f"the guide does not say that it takes at most {CLIENT_MAX} bytes")
    objects = compile_all([CROSS, *MACHINE], [], folder)
    example = f"{folder}/device_client.o"
    subprocess.run([CROSS, *MACHINE, *FLAGS, "-c", ROOT / "docs/examples/device_client.c",
                    "-o", example], check=True)
    return link_and_weigh("device_ask", ["device_ask"],
                          [*FROM_LIBC, "device_send", "device_receive", "device_show"],
                          [example, *objects], folder, CLIENT_MAX)


def read_graph(folder):
    frames, calls = {}, {}
    for graph in pathlib.Path(folder).glob("*.ci"):
        for line in graph.read_text(encoding="utf-8").splitlines():
            node = re.match(r'node: \{ title: "([^"]+)" label: "([^"]*)"', line)
            edge = re.match(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"', line)
            frame = node and re.search(r"(\d+) bytes \((\w+)", node[2])
            if frame:
                if frame[2] != "static":
                    sys.exit(f"{node[1]}: a frame without bound")
                frames[node[1]] = int(frame[1])
            if edge:
                calls.setdefault(edge[1], set()).add(edge[2])
    return frames, calls


def deepest(name, frames, calls, above=()):
    if name in above:
        sys.exit(f"recursion: {' > '.join(above)} > {name}")
    below = [deepest(callee, frames, calls, (*above, name)) for callee in calls.get(name, ())]
    return frames.get(name, 0) + max(below, default=0)


def stack(folder):
    compile_all([CROSS, *MACHINE], ["-fcallgraph-info=su"], folder)
    frames, calls = read_graph(folder)
    needs = sorted(((deepest(name, frames, calls), name) for name in PROFILE), reverse=True)
    for need, name in needs[:5]:
        print(f"{need:5} {name}")
    print(f"at most {STACK_MAX} bytes; no recursion")
    return 0 if needs[0][0] <= STACK_MAX and needs[0][0] > 0 else 1


def run_in_32_bits(folder):
    program = f"{folder}/smoke"
    try:
        objects = compile_all(["gcc", "-m32"], [], folder)
        subprocess.run(["gcc", "-m32", "-std=c11", f"-I{ROOT}/lib/include",
                        ROOT / "tests/freestanding/smoke.c", *objects, "-o", program],
                       check=True, stderr=subprocess.PIPE)
    except subprocess.CalledProcessError:
        print("skipped: gcc -m32 does not work here (Debian: gcc-multilib)")
        return SKIPPED
    done = subprocess.run([program], stdout=subprocess.PIPE, timeout=60, check=False)
    print(done.stdout.decode(), end="")
    return 0 if done.returncode == 0 and b"32 bits" in done.stdout else 1


def main():
    subject = sys.argv[1]
    if subject != "32-bit" and shutil.which(CROSS) is None:
        print(f"skipped: there is no {CROSS} (Debian: gcc-arm-none-eabi, libnewlib-arm-none-eabi)")
        return SKIPPED
    run = {"size": size, "client": client, "stack": stack, "32-bit": run_in_32_bits}[subject]
    with tempfile.TemporaryDirectory() as folder:
        return run(folder)


if __name__ == "__main__":
    sys.exit(main())
