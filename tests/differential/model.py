# SPDX-License-Identifier: BSD-2-Clause
"""CRIs in Python, written from the draft and docs/CONFORMANCE.md, not from libcri.

Slow and plain. What it refuses raises Refused. An item is a str, or a tuple of str
and bytes (a text-pet-sequence).
"""
import ipaddress
import json
import re
import struct
import unicodedata

ALL = True  # discard
UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
SUB_DELIMS = frozenset(b"!$&'()*+,;=")
# Octets that may stand raw, by component.
RAW = {
    "userinfo": UNRESERVED | SUB_DELIMS | frozenset(b":"),
    "label": UNRESERVED | SUB_DELIMS,
    "segment": UNRESERVED | SUB_DELIMS | frozenset(b":@"),
    "parameter": (UNRESERVED | SUB_DELIMS | frozenset(b":@/?")) - frozenset(b"&"),
    "fragment": UNRESERVED | SUB_DELIMS | frozenset(b":@/?"),
}
IPV4 = re.compile(r"(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}\Z", re.A)
SCHEME_NAME = re.compile(r"[a-z][a-z0-9+.-]*\Z")


class Refused(Exception):
    pass


def need(condition, why):
    if not condition:
        raise Refused(why)


# --- CBOR ---

class Other:
    """An item that no CRI has."""


class Reader:
    def __init__(self, data):
        self.data = data
        self.pos = 0

    def take(self, count):
        need(count <= len(self.data) - self.pos, "truncated")
        self.pos += count
        return self.data[self.pos - count:self.pos]

    def item(self, depth=0):
        need(depth < 8, "deep")
        first = self.take(1)[0]
        major, info = first >> 5, first & 31
        need(info < 28, "indefinite or reserved")
        value = info if info < 24 else int.from_bytes(self.take(1 << (info - 24)), "big")
        if major == 0:
            return value
        if major == 1:
            return -1 - value
        if major == 2:
            return self.take(value)
        if major == 3:
            try:
                return self.take(value).decode("utf-8")
            except UnicodeDecodeError:
                raise Refused("utf-8") from None
        if major == 4:
            need(value <= len(self.data), "truncated")
            return [self.item(depth + 1) for _ in range(value)]
        if major == 7 and info in (20, 21, 22):
            return {20: False, 21: True, 22: None}[info]
        return Other()


def head(major, value):
    if value < 24:
        return bytes([major << 5 | value])
    for info, (size, code) in enumerate(((1, "B"), (2, "H"), (4, "I"), (8, "Q"))):
        if value < 1 << 8 * size:
            return bytes([major << 5 | 24 + info]) + struct.pack(">" + code, value)
    raise ValueError(value)


def cbor(item):
    if item is None or isinstance(item, bool):
        return {None: b"\xf6", True: b"\xf5", False: b"\xf4"}[item]
    if isinstance(item, int):
        return head(0, item) if item >= 0 else head(1, -1 - item)
    if isinstance(item, bytes):
        return head(2, len(item)) + item
    if isinstance(item, str):
        text = item.encode("utf-8")
        return head(3, len(text)) + text
    return head(4, len(item)) + b"".join(cbor(part) for part in item)


def is_int(item):
    return isinstance(item, int) and not isinstance(item, bool)


def notation(item):
    """Diagnostic notation of items that a CRI may have."""
    if isinstance(item, str):
        text = json.dumps(item, ensure_ascii=False)
        return re.sub("[\x80-\x9f\u2028-\u202e\u2066-\u2069]",
                      lambda m: f"\\u{ord(m.group()):04x}", text)
    if isinstance(item, bytes):
        return f"h'{item.hex()}'"
    if isinstance(item, list):
        return "[" + ", ".join(notation(part) for part in item) + "]"
    need(not isinstance(item, Other), "other")
    if item is None or isinstance(item, bool):
        return json.dumps(item)
    return str(item)


# --- The model: section 2 ---

class Cri:
    def __init__(self):
        self.scheme = None      # None, a scheme-id or a name
        self.authority = None   # None, True or a dict: userinfo, labels or ip, zone, port
        self.discard = ALL
        self.path = None
        self.query = None
        self.fragment = None

    def key(self, with_fragment=True):
        authority = self.authority
        if isinstance(authority, dict):
            authority = tuple(sorted((k, tuple(v) if isinstance(v, list) else v)
                                     for k, v in authority.items()))
        return (self.scheme, type(self.scheme), authority, self.discard, type(self.discard),
                self.path and tuple(self.path), self.path is None,
                self.query and tuple(self.query), self.query is None,
                self.fragment if with_fragment else None)


def utf8_runs(data):
    """[(is a UTF-8 character, bytes)] of octets."""
    pos = 0
    while pos < len(data):
        for size in (1, 2, 3, 4):
            try:
                data[pos:pos + size].decode("utf-8")
            except UnicodeDecodeError:
                continue
            if pos + size <= len(data):
                yield True, data[pos:pos + size]
                pos += size
                break
        else:
            yield False, data[pos:pos + 1]
            pos += 1


def pet(item):
    """A text-pet-sequence, checked: section 7.2."""
    need(all(isinstance(part, (str, bytes)) and len(part) > 0 for part in item), "pet parts")
    need(any(isinstance(part, bytes) for part in item), "pet without bytes")
    need(all(type(a) is not type(b) for a, b in zip(item, item[1:])), "pet alternates")
    for part in item:
        if isinstance(part, bytes):
            for is_character, run in utf8_runs(part):
                need(not (is_character and (len(run) > 1 or run[0] in UNRESERVED)), "pet minimal")
    return tuple(item)


def text_or_pet(item, is_label=False):
    item = pet(item) if isinstance(item, list) else item
    need(isinstance(item, (str, tuple)), "neither text nor pet")
    if is_label:
        for part in item if isinstance(item, tuple) else (item,):
            if isinstance(part, str):
                need("." not in part and not re.search("[A-Z]", part), "label")
    return item


def is_address_name(labels):
    """Dotted decimal, or a single label in brackets as an IP-literal is."""
    if not all(isinstance(label, str) for label in labels):
        return False
    return bool(IPV4.match(".".join(labels))) or (
        len(labels) == 1 and len(labels[0]) >= 2 and labels[0][0] == "[" and labels[0][-1] == "]")


def authority(items):
    out = {}
    items = list(items)
    if items and items[0] is False:
        need(len(items) > 1, "userinfo")
        out["userinfo"] = text_or_pet(items[1])
        items = items[2:]
    need(len(items) > 0, "no host")
    if isinstance(items[0], bytes):
        need(len(items[0]) in (4, 16), "address")
        out["ip"] = items.pop(0)
        if items and isinstance(items[0], str):
            out["zone"] = items.pop(0)
    else:
        labels = []
        while items and isinstance(items[0], (str, list)):
            labels.append(text_or_pet(items.pop(0), True))
        need(labels, "no labels")
        need(not is_address_name(labels), "labels spell an address")
        out["labels"] = labels
    if items:
        need(is_int(items[0]) and 0 <= items[0] <= 65535, "port")
        out["port"] = items.pop(0)
    need(not items, "behind the port")
    return out


def segments(item):
    if item is None:
        return None
    need(isinstance(item, list), "not a list")
    return [text_or_pet(part) for part in item]


def check(cri):
    """Section 2.3, for a full CRI."""
    for segment in cri.path or []:
        need(segment not in (".", ".."), "dot-segment")
    if cri.scheme is None or isinstance(cri.authority, dict):
        return cri
    if cri.authority is True:
        need(cri.path and cri.path[0] != "", "rootless")
    else:
        need(not (len(cri.path) > 1 and cri.path[0] == ""), "leading empty segment")
    return cri


def decode(data):
    reader = Reader(data)
    items = reader.item()
    need(reader.pos == len(data), "trailing bytes")
    need(isinstance(items, list), "not an array")
    return from_items(items)


def from_items(items):
    cri = Cri()
    need(not items or items[-1] is not None, "trailing null")
    if not items:
        items = [0]
    first = items[0]
    if first is True or (is_int(first) and first >= 0):
        need(first is True or first <= 127, "discard")
        need(len(items) <= 4, "too many")
        cri.discard = first
        rest = items[1:]
    else:
        need(first is None or (is_int(first) and first < 0) or isinstance(first, str), "first")
        need(not isinstance(first, str) or SCHEME_NAME.match(first), "scheme name")
        need(len(items) <= 5, "too many")
        cri.scheme = first
        if len(items) > 1:
            second = items[1]
            need(second is None or second is True or isinstance(second, list), "authority")
            cri.authority = authority(second) if isinstance(second, list) else second
        need(cri.scheme is not None or cri.authority is not None, "nothing set")
        rest = items[2:]
    rest = [*rest, None, None, None]
    cri.path = segments(rest[0])
    cri.query = segments(rest[1])
    cri.fragment = None if rest[2] is None else text_or_pet(rest[2])
    if cri.scheme is not None:
        cri.path = cri.path or []
        cri.query = cri.query or []
    return check(cri)


def to_items(cri):
    """Canonical interchange form: section 5.1."""
    def plain(part):
        return list(part) if isinstance(part, tuple) else part

    local = [cri.path if cri.path is None else [plain(p) for p in cri.path],
             cri.query if cri.query is None else [plain(p) for p in cri.query],
             plain(cri.fragment)]
    if cri.scheme is None and cri.authority is None:
        out = [cri.discard, *local]
    else:
        host = cri.authority
        if isinstance(host, dict):
            host = []
            if "userinfo" in cri.authority:
                host += [False, plain(cri.authority["userinfo"])]
            host += ([cri.authority["ip"]] if "ip" in cri.authority
                     else [plain(label) for label in cri.authority["labels"]])
            host += [cri.authority[k] for k in ("zone", "port") if k in cri.authority]
        out = [cri.scheme, host, *local]
    while len(out) > 1 and (out[-1] is None or out[-1] == []):
        # Behind discard 0 an empty array still says something (AMB-5).
        if out[-1] == [] and out[0] is not True and out[0] == 0 and is_int(out[0]) and (
                len(out) == 2 or out[1] is None):
            break
        out.pop()
    return [] if out == [0] and out[0] is not False else out


def encode(cri):
    return cbor(to_items(cri))


# --- What a creator may do: section 3 ---

def nfc(item):
    if isinstance(item, (list, tuple)):
        return [nfc(part) for part in item]
    return unicodedata.normalize("NFC", item) if isinstance(item, str) else item


def split_labels(labels):
    """Labels in lower case and NFC, split at their dots."""
    out = []
    for label in labels:
        parts = [[]]
        for piece in label if isinstance(label, list) else [label]:
            if not isinstance(piece, str):
                parts[-1].append(piece)
                continue
            first, *rest = lower(unicodedata.normalize("NFC", piece)).split(".")
            parts[-1].append(first)
            parts += [[text] for text in rest]
        for part in parts:
            part = [piece for piece in part if piece not in ("", b"")]
            is_pet = any(isinstance(piece, bytes) for piece in part)
            out.append(part if is_pet else "".join(part))
    return out


def normalize(items, ports):
    """The items a creator would send, from items that need not obey the rules yet."""
    need(isinstance(items, list) and items, "not an array")
    items = list(items)
    if isinstance(items[0], str):
        items[0] = lower(items[0])
    start = 1
    if not (items[0] is True or (is_int(items[0]) and items[0] >= 0)):
        start = 2
        if len(items) > 1 and isinstance(items[1], list):
            host = list(items[1])
            front = []
            if host[:1] == [False]:
                front, host = host[:2], host[2:]
            labels = []
            while host and isinstance(host[0], (str, list)) and not isinstance(
                    front[-1] if front else None, bytes):
                labels.append(host.pop(0))
            for label in labels:
                if isinstance(label, list):
                    pet(label)
            port = ports.get(-1 - items[0]) if is_int(items[0]) else None
            if isinstance(items[0], str):
                port = ports.get(items[0])
            if labels and host == [port] or (host and isinstance(host[0], bytes)
                                             and host[-1:] == [port]):
                host = host[:-1]
            items[1] = front + split_labels(labels) + host
    for index in range(start, len(items)):
        items[index] = nfc(items[index])
    return from_items(items)


# --- CRI to URI: section 6.1 ---

def quote(item, component):
    out = ""
    for part in item if isinstance(item, tuple) else (item,):
        raw = RAW[component] if isinstance(part, str) else frozenset()
        for octet in part.encode("utf-8") if isinstance(part, str) else part:
            out += chr(octet) if octet in raw else f"%{octet:02X}"
    return out


def ip_text(ip):
    if len(ip) == 4:
        return ".".join(str(octet) for octet in ip)
    if ip[:12] == bytes(10) + b"\xff\xff":
        return "[::ffff:" + ip_text(ip[12:]) + "]"
    groups = [f"{int.from_bytes(ip[i:i + 2], 'big'):x}" for i in range(0, 16, 2)]
    best, start = 1, -1
    for i in range(8):
        length = 0
        while i + length < 8 and groups[i + length] == "0":
            length += 1
        if length > best:
            best, start = length, i
    if start < 0:
        return "[" + ":".join(groups) + "]"
    return "[" + ":".join(groups[:start]) + "::" + ":".join(groups[start + best:]) + "]"


def authority_text(host):
    need("zone" not in host, "zone")
    out = quote(host["userinfo"], "userinfo") + "@" if "userinfo" in host else ""
    out += ip_text(host["ip"]) if "ip" in host else ".".join(quote(label, "label")
                                                             for label in host["labels"])
    return out + (f":{host['port']}" if "port" in host else "")


def relative_path(cri):
    if cri.discard is ALL:
        need(cri.path, "no path text for discard all")
        need(not (len(cri.path) > 1 and cri.path[0] == ""), "//")
        return "/" + "/".join(quote(s, "segment") for s in cri.path)
    if cri.discard == 0:
        need(cri.path is None, "append")
        need(cri.query is None or cri.query, "query cleared")
        return ""
    need(cri.path, "no path text")
    out = "/".join(quote(s, "segment") for s in cri.path)
    if cri.discard == 1:
        first = quote(cri.path[0], "segment")
        return "./" + out if ":" in first or first == "" else out
    return "../" * (cri.discard - 1) + out


def to_uri(cri, names):
    out = ""
    if cri.scheme is not None:
        name = cri.scheme if isinstance(cri.scheme, str) else names.get(-1 - cri.scheme)
        need(name, "unknown scheme")
        out = name + ":"
    if isinstance(cri.authority, dict):
        out += "//" + authority_text(cri.authority)
        out += "".join("/" + quote(s, "segment") for s in cri.path or [])
    elif cri.scheme is None:
        need(cri.authority is None, "rootless without scheme")
        out += relative_path(cri)
    elif cri.path:
        out += ("" if cri.authority is True else "/") + "/".join(quote(s, "segment")
                                                                 for s in cri.path)
    if cri.query:
        out += "?" + "&".join(quote(q, "parameter") for q in cri.query)
    if cri.fragment is not None:
        out += "#" + quote(cri.fragment, "fragment")
    return out


# --- URI to CRI ---

URI = re.compile(r"(?:([^:/?#]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?\Z", re.S)
PCT = re.compile(r"%[0-9A-Fa-f]{2}")


def check_characters(text, allowed):
    need(all(ord(c) < 128 and ord(c) in allowed for c in PCT.sub("", text)), "characters")


def unquote(text, component):
    """Percent-decoding as U2C-13 has it: to text, or to text and bytes."""
    octets = []  # (octet, stands for itself)
    pos = 0
    while pos < len(text):
        if text[pos] == "%":
            octet = int(text[pos + 1:pos + 3], 16)
            octets.append((octet, octet in UNRESERVED))
            pos += 3
        else:
            octets.append((ord(text[pos]), True))
            pos += 1
    parts = []

    def put(part):
        if parts and type(parts[-1]) is type(part):
            parts[-1] += part
        else:
            parts.append(part)

    data = bytes(octet for octet, _ in octets)
    pos = 0
    for is_character, run in utf8_runs(data):
        is_plain = octets[pos][1] or (is_character and (len(run) > 1
                                                        or run[0] not in RAW[component]))
        put(run.decode("utf-8") if is_plain and is_character else run)
        pos += len(run)
    if any(isinstance(part, bytes) for part in parts):
        return tuple(parts)
    return "".join(parts)


def lower(text):
    return "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in text)


def host_of(text):
    if text.startswith("["):
        need(text.endswith("]") and "%" not in text, "literal")
        try:
            return {"ip": ipaddress.IPv6Address(text[1:-1]).packed}
        except ValueError:
            raise Refused("not IPv6") from None
    check_characters(text, RAW["label"])
    # Unreserved characters first: then dots split, escaped or not before.
    plain = PCT.sub(lambda m: chr(int(m.group()[1:], 16))
                    if int(m.group()[1:], 16) in UNRESERVED else m.group(), text)
    if IPV4.match(plain):
        return {"ip": bytes(int(part) for part in plain.split("."))}
    labels = []
    for label in plain.split("."):
        item = unquote(label, "label")
        if isinstance(item, str):
            labels.append(lower(item))
        else:
            labels.append(tuple(lower(p) if isinstance(p, str) else p for p in item))
    need(not is_address_name(labels), "labels spell an address")
    return {"labels": labels}


def authority_of(text, default_port):
    out = {}
    if "@" in text:
        userinfo, text = text.split("@", 1)
        check_characters(userinfo, RAW["userinfo"])
        out["userinfo"] = unquote(userinfo, "userinfo")
    match = re.match(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]*))?\Z", text)
    need(match, "authority")
    out.update(host_of(match.group(1)))
    if match.group(2):
        port = int(match.group(2))
        need(port <= 65535, "port")
        if port != default_port:
            out["port"] = port
    return out


def plain_dots(path):
    """Percent-encoded unreserved characters stand for themselves before dots are removed."""
    return PCT.sub(lambda m: chr(int(m.group()[1:], 16))
                   if int(m.group()[1:], 16) in UNRESERVED else m.group(), path)


def remove_dot_segments(path):
    """RFC 3986 section 5.2.4, to the letter."""
    out = ""
    while path:
        if path.startswith("../"):
            path = path[3:]
        elif path.startswith("./"):
            path = path[2:]
        elif path.startswith("/./"):
            path = path[2:]
        elif path == "/.":
            path = "/"
        elif path.startswith("/../"):
            path = path[3:]
            out = out[:max(out.rfind("/"), 0)]
        elif path == "/..":
            path = "/"
            out = out[:max(out.rfind("/"), 0)]
        elif path in (".", ".."):
            path = ""
        else:
            end = path.find("/", 1)
            end = len(path) if end < 0 else end
            out += path[:end]
            path = path[end:]
    return out


def relative_segments(path):
    """Discard and segments of a relative path."""
    ups = 0
    out = []
    parts = path.split("/")
    for index, part in enumerate(parts):
        is_last = index == len(parts) - 1
        if part == "..":
            if out:
                out.pop()
            else:
                ups += 1
        if part in (".", ".."):
            if is_last:
                out.append("")
        else:
            out.append(part)
    return ups + 1, out


def from_uri(text, numbers, ports):
    need(all(ord(c) < 128 for c in text), "ascii")
    need(not re.search(r"%(?![0-9A-Fa-f]{2})", text), "percent")
    scheme, host, path, query, fragment = URI.match(text).groups()
    cri = Cri()
    if scheme is not None:
        need(re.match(r"[A-Za-z][A-Za-z0-9+.-]*\Z", scheme), "scheme")
        name = lower(scheme)
        number = numbers.get(name)
        cri.scheme = name if number is None else -1 - number
    check_characters(path, RAW["segment"] | frozenset(b"/"))
    check_characters(query or "", RAW["parameter"] | frozenset(b"&"))
    check_characters(fragment or "", RAW["fragment"])
    path = plain_dots(path)
    if host is not None:
        cri.authority = authority_of(host, ports.get(numbers.get(lower(scheme or ""))))
    if scheme is not None or host is not None or path.startswith("/"):
        path = remove_dot_segments(path)
        if path.startswith("/"):
            cri.path = [unquote(s, "segment") for s in path[1:].split("/")]
        elif path:
            cri.authority = True
            cri.path = [unquote(s, "segment") for s in path.split("/")]
        else:
            cri.path = []
    elif path:
        cri.discard, parts = relative_segments(path)
        need(cri.discard <= 127, "discard")
        cri.path = [unquote(s, "segment") for s in parts]
    else:
        cri.discard = 0
    if query is not None:
        cri.query = [unquote(q, "parameter") for q in query.split("&")]
    if fragment is not None:
        cri.fragment = unquote(fragment, "fragment")
    if cri.scheme is not None:
        cri.query = cri.query or []
    elif cri.discard is ALL and cri.authority is not None and not cri.path:
        cri.path = None
    return check(cri)


# --- Resolution: section 5.3 ---

def resolve(base, reference):
    need(base.scheme is not None, "base")
    if reference.scheme is not None:
        return reference
    out = Cri()
    out.scheme, out.authority = base.scheme, base.authority
    out.path, out.query, out.fragment = list(base.path), list(base.query), base.fragment
    if reference.discard is ALL:
        out.path, out.query, out.fragment = [], [], None
        if out.authority is True:
            out.authority = None
    elif reference.discard > 0:
        out.path = out.path[:max(len(out.path) - reference.discard, 0)]
        out.query, out.fragment = [], None
    if reference.path is not None:
        out.path += reference.path
        out.query, out.fragment = [], None
    if reference.query is not None:
        out.query, out.fragment = reference.query, None
    if reference.authority is not None:
        out.authority = reference.authority
    if reference.fragment is not None:
        out.fragment = reference.fragment
    return check(out)


# --- CoAP: sections 8.1.1 and 8.1.2 ---

COAP = (0, 1, 6, 7, 24, 25)


def option_text(item):
    need(isinstance(item, str), "pet")
    need(len(item.encode("utf-8")) <= 255, "long")
    return item


def to_options(cri, to, names, ports):
    address, port = to
    need(is_int(cri.scheme) and -1 - cri.scheme in COAP, "scheme")
    need(cri.fragment is None, "fragment")
    need(isinstance(cri.authority, dict) and "userinfo" not in cri.authority, "host")
    need("zone" not in cri.authority, "zone")
    number = -1 - cri.scheme
    out = []
    if "labels" in cri.authority:
        need(all(isinstance(label, str) for label in cri.authority["labels"]), "pet")
        host = ".".join(cri.authority["labels"])
        need(host, "empty host")
        out.append([3, option_text(host)])
    elif cri.authority["ip"] != address:
        out.append([3, ip_text(cri.authority["ip"])])
    if cri.authority.get("port", ports[number]) != port:
        out.append([7, cri.authority.get("port", ports[number])])
    path = [option_text(s) for s in cri.path]
    out += [] if path == [""] else [[11, s] for s in path]
    out += [[15, option_text(q)] for q in cri.query]
    return {"scheme": names[number], "options": out}


def from_options(request, to, numbers, ports):
    address, default = to
    number = numbers.get(request["scheme"])
    need(number in COAP, "scheme")
    hosts = [v for n, v in request["options"] if n == 3]
    given = [v for n, v in request["options"] if n == 7]
    need(len(hosts) < 2 and len(given) < 2, "repeated")
    cri = Cri()
    cri.scheme = -1 - number
    cri.path = [v for n, v in request["options"] if n == 11]
    cri.query = [v for n, v in request["options"] if n == 15]
    need(all(len(v.encode("utf-8")) <= 255 for v in hosts + cri.path + cri.query), "long")
    if not hosts:
        cri.authority = {"ip": address}
    else:
        host = hosts[0]
        need(host and "%" not in host, "host")
        if not host.startswith("["):
            need(all(ord(c) >= 128 or ord(c) in RAW["label"] for c in host), "host")
            is_ip = IPV4.match(host)
            cri.authority = ({"ip": bytes(int(p) for p in host.split("."))} if is_ip
                             else {"labels": [lower(label) for label in host.split(".")]})
        else:
            cri.authority = host_of(host)
    port = given[0] if given else default
    need(port <= 65535, "port")
    if port != ports[number]:
        cri.authority["port"] = port
    return check(cri)
