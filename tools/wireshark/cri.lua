-- SPDX-License-Identifier: BSD-2-Clause
--
-- Wireshark and tshark: Constrained Resource Identifiers in CoAP
-- (draft-ietf-core-href-30). Shows the options Proxy-Cri and Proxy-Scheme-Number and
-- payloads that are CRIs, in CBOR diagnostic notation and as the URI they stand for; and, as
-- coap_media, the media types of Content-Format and Accept.
--
--     tshark -X lua_script:cri.lua -r capture.pcap -Y cri
--
-- or copy it to the folder of personal Lua plugins (Help, About, Folders).
--
-- How it works: a post-dissector. Wireshark's own CoAP dissector finds the options, in
-- whatever transport (UDP, TCP, WebSocket, DTLS and TLS with keys), and gives each one's
-- bytes as coap.opt.name; the deltas in them are added up to the option's number again.
-- Nothing of what is read is trusted: lengths are compared, depth is limited, and what is
-- malformed is said in an expert item.

local OPTION_URI_HOST, OPTION_URI_PORT, OPTION_URI_PATH, OPTION_URI_QUERY = 3, 7, 11, 15
local OPTION_CONTENT_FORMAT, OPTION_ACCEPT = 12, 17
local OPTION_PROXY_CRI, OPTION_PROXY_SCHEME_NUMBER = 235, 239 -- as proposed by the draft
local DEPTH_MAX = 16
local AUTHORITY_ROOTLESS = "rootless"

-- The schemes of CoAP and HTTP, and the two that are shown most; the registry has more.
local SCHEMES = {
    [0] = "coap", [1] = "coaps", [2] = "http", [3] = "https", [4] = "urn", [5] = "did",
    [6] = "coap+tcp", [7] = "coaps+tcp", [24] = "coap+ws", [25] = "coaps+ws",
}

-- From media.def, by formats.py:
local CONTENT_FORMATS = {
    [0] = 'text/plain;charset=utf-8',
    [16] = 'application/cose;cose-type="cose-encrypt0"',
    [17] = 'application/cose;cose-type="cose-mac0"',
    [18] = 'application/cose;cose-type="cose-sign1"',
    [19] = 'application/ace+cbor',
    [21] = 'image/gif',
    [22] = 'image/jpeg',
    [23] = 'image/png',
    [40] = 'application/link-format',
    [41] = 'application/xml',
    [42] = 'application/octet-stream',
    [47] = 'application/exi',
    [50] = 'application/json',
    [51] = 'application/json-patch+json',
    [52] = 'application/merge-patch+json',
    [60] = 'application/cbor',
    [61] = 'application/cwt',
    [62] = 'application/multipart-core',
    [63] = 'application/cbor-seq',
    [64] = 'application/edhoc+cbor-seq',
    [65] = 'application/cid-edhoc+cbor-seq',
    [96] = 'application/cose;cose-type="cose-encrypt"',
    [97] = 'application/cose;cose-type="cose-mac"',
    [98] = 'application/cose;cose-type="cose-sign"',
    [101] = 'application/cose-key',
    [102] = 'application/cose-key-set',
    [110] = 'application/senml+json',
    [111] = 'application/sensml+json',
    [112] = 'application/senml+cbor',
    [113] = 'application/sensml+cbor',
    [114] = 'application/senml-exi',
    [115] = 'application/sensml-exi',
    [140] = 'application/yang-data+cbor;id=sid',
    [256] = 'application/coap-group+json',
    [257] = 'application/concise-problem-details+cbor',
    [258] = 'application/swid+cbor',
    [259] = 'application/pkixcmp',
    [260] = 'application/yang-sid+json',
    [261] = 'application/ace-groupcomm+cbor',
    [262] = 'application/ace-trl+cbor',
    [263] = 'application/eat+cwt',
    [264] = 'application/eat+jwt',
    [265] = 'application/eat-bun+cbor',
    [266] = 'application/eat-bun+json',
    [267] = 'application/eat-ucs+cbor',
    [268] = 'application/eat-ucs+json',
    [269] = 'application/coap-eap',
    [270] = 'application/suit-report+cose',
    [271] = 'application/dots+cbor',
    [272] = 'application/missing-blocks+cbor-seq',
    [273] = 'application/cmw+cbor',
    [274] = 'application/cmw+json',
    [275] = 'application/cmw+cose',
    [276] = 'application/cmw+jws',
    [277] = 'application/scitt-statement+cose',
    [278] = 'application/scitt-receipt+cose',
    [279] = 'application/statuslist+cwt',
    [280] = 'application/pkcs7-mime;smime-type=server-generated-key',
    [281] = 'application/pkcs7-mime;smime-type=certs-only',
    [284] = 'application/pkcs8',
    [285] = 'application/csrattrs',
    [286] = 'application/pkcs10',
    [287] = 'application/pkix-cert',
    [290] = 'application/aif+cbor',
    [291] = 'application/aif+json',
    [292] = 'application/aif+cbor;toid=CRI-local-part',
    [293] = 'application/sd-cwt',
    [294] = 'application/kb+cwt',
    [295] = 'application/measured-component+cbor',
    [296] = 'application/measured-component+json',
    [297] = 'application/aif+cbor;toid=oscore-gname;tperm=oscore-gperm',
    [298] = 'application/aif+json;toid=oscore-gname;tperm=oscore-gperm',
    [310] = 'application/senml+xml',
    [311] = 'application/sensml+xml',
    [320] = 'application/senml-etch+json',
    [322] = 'application/senml-etch+cbor',
    [340] = 'application/yang-data+cbor',
    [341] = 'application/yang-data+cbor;id=name',
    [432] = 'application/td+json',
    [433] = 'application/tm+json',
    [434] = 'application/sdf+json',
    [553] = 'application/dns-message',
    [601] = 'application/uccs+cbor',
    [836] = 'application/voucher+cose',
    [10000] = 'application/vnd.ocf+cbor',
    [10001] = 'application/oscore',
    [10002] = 'application/javascript',
    [10003] = 'application/eat+cwt;eat_profile="tag:psacertified.org,2023:psa#tfm"',
    [10004] = 'application/eat+cwt;eat_profile="tag:psacertified.org,2019:psa#legacy"',
    [10005] = 'application/eat+cwt;eat_profile=2.16.840.1.113741.1.16.1',
    [10006] = 'application/vnd.oms.cellular-cose-content+cbor',
    [10007] = 'application/syslog-msg',
    [10570] = 'application/toc+cbor',
    [10571] = 'application/ce+cbor',
    [10572] = 'application/toc+cbor;profile=2.16.840.1.113741.1.16.1',
    [10573] = 'application/ce+cbor;profile=2.16.840.1.113741.1.16.1',
    [11050] = 'application/json (deflate)',
    [11060] = 'application/cbor (deflate)',
    [11542] = 'application/vnd.oma.lwm2m+tlv',
    [11543] = 'application/vnd.oma.lwm2m+json',
    [11544] = 'application/vnd.oma.lwm2m+cbor',
    [12000] = 'text/plain;charset=utf-8 (zstd)',
    [12041] = 'application/xml (zstd)',
    [12050] = 'application/json (zstd)',
    [20000] = 'text/css',
    [20001] = 'application/vnd.as207960.vas.config+jer',
    [20002] = 'application/vnd.as207960.vas.config+uper',
    [20003] = 'application/vnd.as207960.vas.tap+jer',
    [20004] = 'application/vnd.as207960.vas.tap+uper',
    [30000] = 'image/svg+xml',
}

local METHODS = {
    "GET", "POST", "PUT", "DELETE", "FETCH", "PATCH", "iPATCH",
}

local cri = Proto("cri", "Constrained Resource Identifiers")
local f_option = ProtoField.uint16("cri.option", "Option", base.DEC)
local f_proxy_cri = ProtoField.bytes("cri.proxy_cri", "Proxy-Cri")
local f_payload = ProtoField.bytes("cri.payload", "CRI in the payload")
local f_diag = ProtoField.string("cri.diag", "Diagnostic notation")
local f_uri = ProtoField.string("cri.uri", "URI")
local f_scheme_number = ProtoField.uint32("cri.proxy_scheme_number", "Proxy-Scheme-Number")
local f_scheme_name = ProtoField.string("cri.proxy_scheme", "Scheme")
local f_target = ProtoField.string("cri.target", "Target")
local f_grant = ProtoField.string("cri.grant", "Granted (AIF)")
cri.fields = {
    f_option, f_proxy_cri, f_payload, f_diag, f_uri, f_scheme_number, f_scheme_name, f_target,
    f_grant,
}
local e_malformed = ProtoExpert.new(
    "cri.malformed", "Malformed CRI", expert.group.MALFORMED, expert.severity.ERROR)
-- A post-dissector cannot take back what another dissector has said: it says what to make of it.
local e_known = ProtoExpert.new("cri.known",
    "An option of draft-ietf-core-href: \"Invalid Option Number\" is no error of the message",
    expert.group.COMMENTS_GROUP, expert.severity.COMMENT)
cri.experts = { e_malformed, e_known }

cri.prefs.payload_format = Pref.range("Content-Formats of CRIs", "60",
    "Payloads of these formats that are a CRI or CRI reference are shown (60: application/cbor)",
    65535)
cri.prefs.aif_format = Pref.uint("Content-Format of AIF with CRIs", 65535,
    "application/aif+cbor;toid=CRI-local-part; has no number yet, 65535: none")

-- Of its own, so that the filter "cri" shows CRIs only.
local media = Proto("coap_media", "Media types in CoAP")
local f_format = ProtoField.string("coap_media.content_format", "Content-Format")
local f_accept = ProtoField.string("coap_media.accept", "Accept")
media.fields = { f_format, f_accept }

local option_name = Field.new("coap.opt.name")
local coap_payload = Field.new("coap.payload")
local expert_message = Field.new("_ws.expert.message")

-- ---- CBOR ----

-- What is wrong is thrown as a table, so that a mistake of ours is not taken for it.
local function fail(reason)
    error({ reason = reason }, 0)
end

local function is_utf8(text)
    local at = 1
    while at <= #text do
        local first = text:byte(at)
        local more, least = 0, 0
        if first >= 0xc2 and first < 0xe0 then
            more, least = 1, 0x80
        elseif first >= 0xe0 and first < 0xf0 then
            more, least = 2, 0x800
        elseif first >= 0xf0 and first < 0xf5 then
            more, least = 3, 0x10000
        elseif first >= 0x80 then
            return false
        end
        local character = more == 0 and first or first % (more == 1 and 32 or more == 2 and 16 or 8)
        for i = at + 1, at + more do
            local octet = text:byte(i)
            if octet == nil or octet < 0x80 or octet > 0xbf then
                return false
            end
            character = character * 64 + octet % 64
        end
        if character < least or character > 0x10ffff or
            (character >= 0xd800 and character < 0xe000) then
            return false
        end
        at = at + more + 1
    end
    return true
end

-- An argument of a head: a number, and its digits, which a number over 2^53 would lose.
local function read_argument(bytes, at, info)
    if info < 24 then
        return info, tostring(info), at
    end
    if info > 27 then
        fail(info == 31 and "indefinite length" or "reserved head")
    end
    local len = 2 ^ (info - 24)
    if at + len - 1 > #bytes then
        fail("a head is cut off")
    end
    local number = 0
    for i = at, at + len - 1 do
        number = number * 256 + bytes:byte(i)
    end
    local digits = string.format("%.0f", number)
    if len == 8 then
        local high, low = 0, 0
        for i = 0, 3 do
            high = high * 256 + bytes:byte(at + i)
            low = low * 256 + bytes:byte(at + 4 + i)
        end
        digits = tostring(UInt64(low, high))
    end
    return number, digits, at + len
end

-- One more than a number in decimal digits, which may be over 2^53.
local function increment(digits)
    local front, last, nines = digits:match("^(.-)([0-8]?)(9*)$")
    return front .. (last == "" and 1 or last + 1) .. ("0"):rep(#nines)
end

local SIMPLE = { [20] = "false", [21] = "true", [22] = "null", [23] = "undefined" }

local read_item

local function read_items(bytes, at, count, depth)
    local items = {}
    if count > #bytes - at + 1 then
        fail("an item is missing")
    end
    for i = 1, count do
        items[i], at = read_item(bytes, at, depth + 1)
    end
    return items, at
end

-- An item as a table: kind, and what the kind has.
read_item = function(bytes, at, depth)
    local initial = bytes:byte(at)
    if initial == nil then
        fail("an item is missing")
    elseif depth > DEPTH_MAX then
        fail("nested too deeply")
    end
    local major, info = math.floor(initial / 32), initial % 32
    local number, digits
    number, digits, at = read_argument(bytes, at + 1, info)
    if major == 0 then
        return { kind = "uint", number = number, digits = digits }, at
    elseif major == 1 then
        return { kind = "nint", number = number, digits = "-" .. increment(digits) }, at
    elseif major == 2 or major == 3 then
        if number > #bytes - at + 1 then
            fail("a string is cut off")
        end
        local text = bytes:sub(at, at + number - 1)
        if major == 3 and not is_utf8(text) then
            fail("text is not UTF-8")
        end
        return { kind = major == 2 and "bytes" or "text", text = text }, at + number
    elseif major == 4 or major == 5 then
        local items
        items, at = read_items(bytes, at, major == 4 and number or 2 * number, depth)
        return { kind = major == 4 and "array" or "map", items = items }, at
    elseif major == 6 then
        local item
        item, at = read_item(bytes, at, depth + 1)
        return { kind = "tag", digits = digits, item = item }, at
    elseif info > 24 then
        fail("a floating-point number")
    elseif info == 24 and number < 32 then
        fail("a simple value that is not well-formed")
    end
    return { kind = "simple", name = SIMPLE[number] or "simple(" .. digits .. ")" }, at
end

local function read_one(bytes)
    local item, at = read_item(bytes, 1, 0)
    if at <= #bytes then
        fail("more bytes behind the item")
    end
    return item
end

-- ---- diagnostic notation ----

local NAMED = {
    ["\b"] = "\\b", ["\t"] = "\\t", ["\n"] = "\\n", ["\f"] = "\\f", ["\r"] = "\\r",
    ['"'] = '\\"', ["\\"] = "\\\\",
}

local function escape_character(character)
    return NAMED[character] or string.format("\\u%04x", character:byte())
end

-- Control characters, line separators and bidirectional overrides do not show as they are.
local function quote(text)
    text = text:gsub('[%z\1-\31"\\]', escape_character)
    text = text:gsub("\xc2([\x80-\x9f])", function(last)
        return string.format("\\u%04x", last:byte())
    end)
    text = text:gsub("\xe2\x80([\xa8-\xae])", function(last)
        return string.format("\\u%04x", 0x2000 + last:byte() - 0x80)
    end)
    text = text:gsub("\xe2\x81([\xa6-\xa9])", function(last)
        return string.format("\\u%04x", 0x2040 + last:byte() - 0x80)
    end)
    return '"' .. text .. '"'
end

local diag

local function diag_list(items)
    local parts = {}
    for i, item in ipairs(items) do
        parts[i] = diag(item)
    end
    return table.concat(parts, ", ")
end

diag = function(item)
    if item.kind == "text" then
        return quote(item.text)
    elseif item.kind == "bytes" then
        return "h'" .. item.text:gsub(".", function(octet)
            return string.format("%02x", octet:byte())
        end) .. "'"
    elseif item.kind == "array" then
        return "[" .. diag_list(item.items) .. "]"
    elseif item.kind == "map" then
        local parts = {}
        for i = 1, #item.items, 2 do
            parts[#parts + 1] = diag(item.items[i]) .. ": " .. diag(item.items[i + 1])
        end
        return "{" .. table.concat(parts, ", ") .. "}"
    elseif item.kind == "tag" then
        return item.digits .. "(" .. diag(item.item) .. ")"
    end
    return item.digits or item.name
end

-- ---- CRI ----

local function is_null(item)
    return item == nil or item.name == "null"
end

-- A text, or text and byte strings in turn (section 7.2), as a list of pieces.
local function read_piece_list(item, what)
    if item.kind == "text" then
        return { item }
    elseif item.kind ~= "array" or #item.items == 0 then
        fail(what .. " is no text")
    end
    local has_bytes = false
    for i, piece in ipairs(item.items) do
        if (piece.kind ~= "text" and piece.kind ~= "bytes") or #piece.text == 0 or
            (i > 1 and piece.kind == item.items[i - 1].kind) then
            fail(what .. ": text and byte strings do not take turns")
        end
        has_bytes = has_bytes or piece.kind == "bytes"
    end
    if not has_bytes then
        fail(what .. ": no byte string")
    end
    return item.items
end

local function read_text_list(item, what)
    if is_null(item) then
        return nil
    elseif item.kind ~= "array" then
        fail(what .. " is no array")
    end
    local list = {}
    for i, part in ipairs(item.items) do
        list[i] = read_piece_list(part, what)
    end
    return list
end

local function read_authority(item)
    local authority, at = {}, 1
    local items = item.items
    if items[at] and items[at].name == "false" then
        if items[at + 1] == nil then
            fail("userinfo is missing")
        end
        authority.userinfo = read_piece_list(items[at + 1], "userinfo")
        at = at + 2
    end
    local first = items[at]
    if first and first.kind == "bytes" then
        if #first.text ~= 4 and #first.text ~= 16 then
            fail("an address of " .. #first.text .. " bytes")
        end
        authority.ip = first.text
        at = at + 1
        if items[at] and items[at].kind == "text" then
            authority.zone = items[at].text
            at = at + 1
        end
    else
        authority.labels = {}
        while items[at] and items[at].kind ~= "uint" do
            local label = read_piece_list(items[at], "host")
            for _, piece in ipairs(label) do
                if piece.kind == "text" and piece.text:find("[.A-Z]") then
                    fail("host: a dot or a capital letter in a label")
                end
            end
            table.insert(authority.labels, label)
            at = at + 1
        end
        if #authority.labels == 0 then
            fail("no host")
        end
    end
    if items[at] and items[at].kind == "uint" and items[at].number <= 65535 then
        authority.port = items[at].digits
        at = at + 1
    end
    if items[at] then
        fail("authority: an item that has no place there")
    end
    return authority
end

local function read_scheme(reference, item)
    if item.kind == "nint" then
        reference.scheme = SCHEMES[item.number]
        reference.is_scheme_unknown = reference.scheme == nil
    elseif item.kind == "text" then
        if not item.text:find("^[a-z][a-z0-9+.-]*$") then
            fail("not a scheme name")
        end
        reference.scheme = item.text
    elseif not is_null(item) then
        fail("the first section is neither scheme nor discard")
    end
end

-- The sections of figure 2: scheme and authority, or discard; then path, query, fragment.
local function read_reference(item)
    if item.kind ~= "array" then
        fail("not an array")
    end
    local items, reference, at = item.items, {}, 1
    local first = items[1]
    if first == nil then
        reference.discard = 0
    elseif first.kind == "uint" or first.name == "true" then
        if first.kind == "uint" and first.number > 127 then
            fail("discard over 127")
        end
        reference.discard = first.number or "all"
        at = 2
    else
        read_scheme(reference, first)
        local authority = items[2]
        if authority and authority.kind == "array" then
            reference.authority = read_authority(authority)
        elseif authority and authority.name == "true" then
            reference.authority = AUTHORITY_ROOTLESS
        elseif not is_null(authority) then
            fail("not an authority")
        elseif is_null(first) then
            fail("neither scheme nor authority")
        end
        at = 3
    end
    reference.path = read_text_list(items[at], "path")
    reference.query = read_text_list(items[at + 1], "query")
    if not is_null(items[at + 2]) then
        reference.fragment = read_piece_list(items[at + 2], "fragment")
    end
    if #items > at + 2 then
        fail("more than " .. at + 2 .. " sections")
    elseif #items > 0 and is_null(items[#items]) then
        fail("null at the end")
    end
    return reference
end

-- ---- URI ----

-- What stands for itself in a component (RFC 3986 section 3), as Lua patterns.
local PLAIN = "A-Za-z0-9%-._~!$'()*+,;="
local RAW = {
    userinfo = "[^" .. PLAIN .. "&:]",
    host = "[^" .. PLAIN .. "&]",
    path = "[^" .. PLAIN .. "&:@]",
    query = "[^" .. PLAIN .. ":@/?]",
    fragment = "[^" .. PLAIN .. "&:@/?]",
}

local function percent(octet)
    return string.format("%%%02X", octet:byte())
end

local function put_pieces(pieces, component)
    local out = {}
    for i, piece in ipairs(pieces) do
        out[i] = piece.text:gsub(piece.kind == "bytes" and "." or RAW[component], percent)
    end
    return table.concat(out)
end

local function put_list(list, separator, component)
    local out = {}
    for i, pieces in ipairs(list or {}) do
        out[i] = put_pieces(pieces, component)
    end
    return table.concat(out, separator)
end

-- RFC 5952: the longest run of zero groups, the first of equals, is left out.
local function put_ipv6(ip)
    local groups = {}
    for i = 1, 15, 2 do
        groups[#groups + 1] = ip:byte(i) * 256 + ip:byte(i + 1)
    end
    local is_mapped = ip:sub(1, 12) == ("\0"):rep(10) .. "\xff\xff"
    local count = is_mapped and 6 or 8
    local run_start, run_len, start = 0, 1, nil
    for i = 1, count + 1 do
        if i <= count and groups[i] == 0 then
            start = start or i
        elseif start then
            if i - start > run_len then
                run_start, run_len = start, i - start
            end
            start = nil
        end
    end
    local text, i = "", 1
    while i <= count do
        if i == run_start then
            text, i = text .. "::", i + run_len
        else
            text = text .. ((text == "" or text:sub(-1) == ":") and "" or ":") ..
                string.format("%x", groups[i])
            i = i + 1
        end
    end
    if is_mapped then
        text = text .. ":" .. string.format("%d.%d.%d.%d", ip:byte(13, 16))
    end
    return "[" .. text .. "]"
end

local function put_authority(authority)
    local text = "//"
    if authority.userinfo then
        text = text .. put_pieces(authority.userinfo, "userinfo") .. "@"
    end
    if authority.ip then
        text = text .. (#authority.ip == 4 and
            string.format("%d.%d.%d.%d", authority.ip:byte(1, 4)) or put_ipv6(authority.ip))
    else
        text = text .. put_list(authority.labels, ".", "host")
    end
    return text .. (authority.port and ":" .. authority.port or "")
end

local function is_empty_segment(pieces)
    return #pieces == 1 and pieces[1].kind == "text" and pieces[1].text == ""
end

local function has_colon(pieces)
    for _, piece in ipairs(pieces) do
        if piece.kind == "text" and piece.text:find(":", 1, true) then
            return true
        end
    end
    return false
end

-- The path of a reference with a discard section, or nil where no URI says it.
local function put_relative_path(reference)
    local path, discard = reference.path, reference.discard
    if discard == 0 then
        local drops_query = reference.query and #reference.query == 0
        return (path == nil and not drops_query) and "" or nil
    end
    local first = path and path[1]
    if first == nil then
        return nil
    end
    local text = ""
    if discard == "all" then
        if is_empty_segment(first) and #path > 1 then
            return nil
        end
        text = "/"
    elseif discard == 1 then
        text = (is_empty_segment(first) or has_colon(first)) and "./" or ""
    else
        text = ("../"):rep(discard - 1)
    end
    return text .. put_list(path, "/", "path")
end

-- The path behind a scheme or an authority, or nil.
local function put_absolute_path(reference)
    local path, authority = reference.path or {}, reference.authority
    local starts_empty = path[1] and is_empty_segment(path[1])
    if authority == AUTHORITY_ROOTLESS then
        local is_allowed = reference.scheme and path[1] and not starts_empty
        return is_allowed and put_list(path, "/", "path") or nil
    elseif authority == nil and starts_empty and #path > 1 then
        return nil
    end
    return (#path > 0 and "/" or "") .. put_list(path, "/", "path")
end

-- The URI reference, or nil where there is none (section 6.1).
local function put_uri(reference)
    local text, path = "", nil
    if reference.is_scheme_unknown then
        return nil
    elseif reference.discard then
        path = put_relative_path(reference)
    else
        local authority = reference.authority
        text = reference.scheme and reference.scheme .. ":" or ""
        if type(authority) == "table" then
            if authority.zone then
                return nil
            end
            text = text .. put_authority(authority)
        end
        path = put_absolute_path(reference)
    end
    if path == nil then
        return nil
    end
    text = text .. path
    if reference.query and #reference.query > 0 then
        text = text .. "?" .. put_list(reference.query, "&", "query")
    end
    return text .. (reference.fragment and "#" .. put_pieces(reference.fragment, "fragment") or "")
end

-- ---- CoAP ----

local function uint(bytes)
    local number = 0
    for i = 1, math.min(#bytes, 4) do
        number = number * 256 + bytes:byte(i)
    end
    return number
end

-- The number of an option less that of the one before it, and where its value begins.
local function read_option(bytes)
    local at = 2
    local function extend(nibble)
        if nibble == 13 then
            at = at + 1
            return 13 + (bytes:byte(at - 1) or 0)
        elseif nibble == 14 then
            at = at + 2
            return 269 + (bytes:byte(at - 2) or 0) * 256 + (bytes:byte(at - 1) or 0)
        end
        return nibble
    end
    local delta = extend(math.floor(bytes:byte(1) / 16))
    local len = extend(bytes:byte(1) % 16)
    return delta, at - 1, math.min(len, #bytes - at + 1)
end

-- The messages of a frame: lists of options, each with number, value and range.
local function read_messages()
    local messages = {}
    local number = 0
    for _, info in ipairs({ option_name() }) do
        local range = info.range
        if range and range:len() > 0 then
            local bytes = range:raw()
            if tostring(info.value):find("^#1:") or #messages == 0 then
                messages[#messages + 1] = {}
                number = 0
            end
            local delta, start, len = read_option(bytes)
            number = number + delta
            table.insert(messages[#messages], {
                number = number, range = range, value = bytes:sub(start + 1, start + len),
                value_range = len > 0 and range:range(start, len) or range,
            })
        end
    end
    return messages
end

local function values_of(message, number)
    local found = {}
    for _, option in ipairs(message) do
        if option.number == number then
            found[#found + 1] = option.value
        end
    end
    return found
end

local function as_pieces(texts)
    local list = {}
    for i, text in ipairs(texts) do
        list[i] = { { kind = "text", text = text } }
    end
    return list
end

-- What Proxy-Scheme-Number and the Uri-* options beside it name (section 8.2.2).
local function target_of_options(message, scheme, pinfo)
    local host = values_of(message, OPTION_URI_HOST)[1]
    local port = values_of(message, OPTION_URI_PORT)[1]
    local path = put_list(as_pieces(values_of(message, OPTION_URI_PATH)), "/", "path")
    local query = values_of(message, OPTION_URI_QUERY)
    if host == nil then
        host = tostring(pinfo.dst)
        host = host:find(":", 1, true) and "[" .. host .. "]" or host
    end
    return scheme .. "://" .. host .. (port and ":" .. uint(port) or "") .. "/" .. path ..
        (#query > 0 and "?" .. put_list(as_pieces(query), "&", "query") or "")
end

-- ---- the tree ----

-- attempt(tree, f, ...): what f returns; or nil, with the reason in the tree.
local function attempt(tree, f, ...)
    local ok, result = pcall(f, ...)
    if ok then
        return result
    elseif type(result) ~= "table" then
        error(result, 0)
    end
    tree:add_proto_expert_info(e_malformed, result.reason)
    return nil
end

-- Wireshark's own dissector does not know the number of this option: no error.
local function note_known(tree, option)
    for _, said in ipairs({ expert_message() }) do
        if said.value == "Invalid Option Number " .. option.number then
            tree:add_proto_expert_info(e_known)
            return
        end
    end
end

-- Adds notation and URI of an item; returns the URI.
local function show_reference(tree, item, range)
    tree:add(f_diag, range, diag(item)):set_generated()
    local reference = attempt(tree, read_reference, item)
    local uri = reference and put_uri(reference)
    if uri then
        tree:add(f_uri, range, uri):set_generated()
        tree:append_text(": " .. uri)
    end
    return uri
end

local function show_proxy_cri(tree, option, pinfo)
    local item_tree = tree:add(f_proxy_cri, option.value_range)
    item_tree:add(f_option, option.range, option.number):set_generated()
    note_known(item_tree, option)
    local item = attempt(item_tree, read_one, option.value)
    local uri = item and show_reference(item_tree, item, option.value_range)
    if uri then
        tree:add(f_target, option.value_range, uri):set_generated()
        pinfo.cols.info:append(" [Proxy-Cri " .. uri .. "]")
    end
end

local function show_scheme_number(tree, option, message, pinfo)
    local number = uint(option.value)
    local item_tree = tree:add(f_scheme_number, option.value_range, number)
    item_tree:add(f_option, option.range, option.number):set_generated()
    note_known(item_tree, option)
    if #option.value > 3 then
        item_tree:add_proto_expert_info(e_malformed, "longer than 3 bytes")
        return
    end
    local scheme = SCHEMES[number]
    if scheme then
        local target = target_of_options(message, scheme, pinfo)
        item_tree:add(f_scheme_name, option.value_range, scheme):set_generated()
        item_tree:append_text(" (" .. scheme .. ")")
        tree:add(f_target, option.range, target):set_generated()
        pinfo.cols.info:append(" [Proxy-Scheme-Number " .. target .. "]")
    end
end

-- AIF (section 8.3): pairs of [path, ?query] and a set of methods, one bit each.
local function show_grants(tree, item, range)
    if item.kind ~= "array" then
        fail("AIF: not an array")
    end
    for _, pair in ipairs(item.items) do
        local parts = pair.items or {}
        local object, methods = parts[1], parts[2]
        if pair.kind ~= "array" or #parts ~= 2 or object.kind ~= "array" or #object.items > 2 or
            methods.kind ~= "uint" then
            fail("AIF: not a pair of object and methods")
        end
        local names, bits = {}, methods.number
        for i, name in ipairs(METHODS) do
            if math.floor(bits / 2 ^ (i - 1)) % 2 == 1 then
                names[#names + 1] = name
            end
            if math.floor(bits / 2 ^ (i + 31)) % 2 == 1 then
                names[#names + 1] = "Dynamic-" .. name
            end
        end
        local path = read_text_list(object.items[1], "path")
        local query = read_text_list(object.items[2], "query")
        tree:add(f_grant, range, table.concat(names, " ") .. " /" ..
            put_list(path, "/", "path") ..
            (query and #query > 0 and "?" .. put_list(query, "&", "query") or "")):set_generated()
    end
end

local function is_in_range(range, number)
    for first, last in tostring(range):gmatch("(%d+)%-?(%d*)") do
        if number >= tonumber(first) and number <= (tonumber(last) or tonumber(first)) then
            return true
        end
    end
    return false
end

local function show_payload(tree, format, range)
    local bytes = range:raw()
    if format == cri.prefs.aif_format and format ~= 65535 then
        local item_tree = tree:add(f_payload, range)
        local item = attempt(item_tree, read_one, bytes)
        if item then
            item_tree:add(f_diag, range, diag(item)):set_generated()
            attempt(item_tree, show_grants, item_tree, item, range)
        end
    elseif is_in_range(cri.prefs.payload_format, format) then
        -- Other CBOR than CRIs has this format, too: what is none is left alone.
        local is_item, item = pcall(read_one, bytes)
        if is_item and pcall(read_reference, item) then
            show_reference(tree:add(f_payload, range), item, range)
        end
    end
end

-- The payload that stands behind the message's last option in the same bytes.
local function payload_of(message, infos)
    local last = message[#message]
    for _, info in ipairs(infos) do
        if info.range and info.offset >= last.range:offset() + last.range:len() then
            return info.range
        end
    end
    return nil
end

local function show_media(root, tvb, option)
    local name = CONTENT_FORMATS[uint(option.value)]
    if name and #option.value <= 2 then
        local field = option.number == OPTION_ACCEPT and f_accept or f_format
        root:add(media, tvb(0, 0)):add(field, option.range, name):set_generated()
    end
end

function cri.dissector(tvb, pinfo, root)
    local payloads = { coap_payload() }
    local tree
    local function subtree()
        tree = tree or root:add(cri, tvb(0, 0))
        return tree
    end
    for _, message in ipairs(read_messages()) do
        local format
        for _, option in ipairs(message) do
            if option.number == OPTION_PROXY_CRI then
                show_proxy_cri(subtree(), option, pinfo)
            elseif option.number == OPTION_PROXY_SCHEME_NUMBER then
                show_scheme_number(subtree(), option, message, pinfo)
            elseif option.number == OPTION_CONTENT_FORMAT then
                format = uint(option.value)
                show_media(root, tvb, option)
            elseif option.number == OPTION_ACCEPT then
                show_media(root, tvb, option)
            end
        end
        local range = format and payload_of(message, payloads)
        if range and (format == cri.prefs.aif_format or
            is_in_range(cri.prefs.payload_format, format)) then
            show_payload(subtree(), format, range)
        end
    end
end

register_postdissector(cri)
