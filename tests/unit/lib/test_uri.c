/* SPDX-License-Identifier: BSD-2-Clause */
/* CONFORMANCE sections 3 and 4. */
#include "hex.h"

#include <cri/uri.h>

static const struct {
    const char *id;
    const char *hex;
    const char *uri; /* NULL: fails */
} to_uri[] = {
    {"C2U-1", "8220816168", "coap://h"},
    {"C2U-1 unknown number", "823903e7816168", NULL},
    {"C2U-2", "826161816162", "a://b"},
    {"C2U-3", "82f6816161", "//a"},
    {"C2U-4", "82f682686e6f6e3a706f72746178", "//non%3Aport.x"},
    {"C2U-4 not ASCII", "82208162c3a9", "coap://%C3%A9"},
    {"C2U-6 IPv4", "82208244c633640119f0b0", "coap://198.51.100.1:61616"},
    {"C2U-6 first of two runs", "8220815020010db8000000000001000000000001",
     "coap://[2001:db8::1:0:0:1]"},
    {"C2U-6 longer run", "8220815020010db8000000010000000000000001", "coap://[2001:db8:0:1::1]"},
    {"C2U-6 lone zero", "8220815020010db8000000010001000100010001",
     "coap://[2001:db8:0:1:1:1:1:1]"},
    {"C2U-6 unspecified", "8220815000000000000000000000000000000000", "coap://[::]"},
    {"C2U-6 run at the end",
     "82208150000100000000000000000000"
     "00000000",
     "coap://[1::]"},
    {"C2U-6 no run", "822081500102030405060708090a0b0c0d0e0f10",
     "coap://[102:304:506:708:90a:b0c:d0e:f10]"},
    {"C2U-7", "8220815000000000000000000000ffffc0a80001", "coap://[::ffff:192.168.0.1]"},
    {"C2U-8", "82208250fe8000000000000000000000000000016465746830", NULL},
    {"C2U-9 empty", "822384f460676578616d706c6563636f6d", "https://@example.com"},
    {"C2U-9 colon", "822383f463613a626168", "https://a:b@h"},
    {"C2U-9 at", "82f684f471616c696365406578616d706c652e636f6d676578616d706c6563636f6d",
     "//alice%40example.com@example.com"},
    {"C2U-10", "8220826168191633", "coap://h:5683"},
    {"C2U-10 port 0", "822082616800", "coap://h:0"},
    {"C2U-11 root-based", "836161f6816162", "a:/b"},
    {"C2U-11 rootless", "836161f58261626163", "a:b/c"},
    {"C2U-11 relative", "82018261616162", "a/b"},
    {"C2U-12", "82f58165612f612561", "/a%2Fa%25a"},
    {"C2U-13", "82f58163e282ac", "/%E2%82%AC"},
    {"C2U-14", "83208161688160", "coap://h/"},
    {"C2U-15", "8320816168846061616060", "coap://h//a//"},
    {"C2U-16", "83f5816178826b616d70657273616e643d266e7175657374696f6e6d61726b3d3f",
     "/x?ampersand=%26&questionmark=?"},
    {"C2U-17 one", "8420816168808160", "coap://h?"},
    {"C2U-17 two", "842081616880826060", "coap://h?&"},
    {"C2U-18 slash", "8400f6f6612f", "#/"},
    {"C2U-18 brackets", "8400f6f6625b5d", "#%5B%5D"},
    {"C2U-19", "8325f581836b7765623a616c6963653a37413a67312d62616c756e",
     "did:web:alice:7%3A1-balun"},
    {"C2U-20 empty path", "816161", "a:"},
    {"C2U-22 empty", "80", ""},
    {"C2U-22 path", "8200816170", NULL},
    {"C2U-22 empty path", "820080", NULL},
    {"C2U-22 query", "8300f6816161", "?a"},
    {"C2U-22 no query", "8300f680", NULL},
    {"C2U-23 two", "8202816161", "../a"},
    {"C2U-23 colon", "82018169746869733a74686174", "./this:that"},
    {"C2U-23 colon behind dots", "82028163613a62", "../a:b"},
    {"C2U-23 colon in the text of a PET", "82018182613a4121", "./:%21"},
    {"C2U-23 colon in bytes",
     "82018182616"
     "1413a",
     "a%3A"},
    {"C2U-24", "82f582606162", NULL},
    {"C2U-25 empty first", "820182606178", ".//x"},
    {"C2U-25 lone empty", "82018160", "./"},
    {"C2U-25 lone empty behind dots", "82028160", "../"},
    {"C2U-25 discard 1", "8101", NULL},
    {"C2U-25 discard 2", "8102", NULL},
    {"C2U-25 true", "81f5", NULL},
    {"C2U-25 true with query", "83f5f6816171", NULL},
    {"C2U-26", "83f6f5816178", NULL},
    {"C2U-27", "83208244c633640119f0b0826b2e77656c6c2d6b6e6f776e64636f7265",
     "coap://198.51.100.1:61616/.well-known/core"},
    {"SCH-4", "82391565816168", "machineprovisioningprogressreporter://h"},
};

static void test_uri_format(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(to_uri); i++) {
        struct bytes bytes;
        struct cri cri;
        char buffer[128];
        size_t len = 0;
        struct cri_fault fault = {0, ""};
        decode_hex(to_uri[i].hex, &bytes, &cri);
        enum cri_error error = cri_uri_format(&cri, NULL, buffer, sizeof buffer - 1, &len, &fault);
        buffer[error == CRI_OK ? len : 0] = '\0';
        bool is_good = to_uri[i].uri == NULL
                           ? cri_error_class(error) == CRI_CLASS_CONVERSION && fault.rule[0] != '\0'
                           : error == CRI_OK && strcmp(buffer, to_uri[i].uri) == 0;
        if (!is_good) {
            fail_msg("%s: %s %s", to_uri[i].id, cri_strerror(error), buffer);
        }
        bytes_free(&bytes);
    }
}

static const struct {
    const char *id;
    const char *uri;
    const char *hex; /* NULL: fails */
    size_t offset;   /* Where. */
} from_uri[] = {
    {"U2C-2", "COAP://h", "8220816168", 0},
    {"U2C-2 no number", "foo://h", "8263666f6f816168", 0},
    {"U2C-2 no number, capitals", "FoO://h", "8263666f6f816168", 0},
    {"U2C-3", "coap://Example.COM.", "822083676578616d706c6563636f6d60", 0},
    {"U2C-3 empty", "x://", "8261788160", 0},
    {"U2C-4", "coap://a%2Eb", "82208261616162", 0},
    {"U2C-5", "coap://127.0.0.1", "822081447f000001", 0},
    {"U2C-5 encoded", "coap://12%37.0.0.1", "822081447f000001", 0},
    {"U2C-5 leading zero", "coap://0127.0.0.1", "8220846430313237613061306131", 0},
    {"U2C-6", "coap://[::1]", "8220815000000000000000000000000000000001", 0},
    {"U2C-6 mixed notation", "coap://[1::2:3.4.5.6]", "8220815000010000000000000000000203040506",
     0},
    {"U2C-6 eight groups", "coap://[1:2:3:4:5:6:7:8]", "8220815000010002000300040005000600070008",
     0},
    {"U2C-6 future", "coap://[v1.x]", NULL, 8},
    {"U2C-6 zone", "coap://[fe80::1%25eth0]", NULL, 8},
    {"IPv6 nine groups", "coap://[1:2:3:4:5:6:7:8:9]", NULL, 8},
    {"IPv6 seven groups", "coap://[1:2:3:4:5:6:7]", NULL, 8},
    {"IPv6 two gaps", "coap://[1::2::3]", NULL, 8},
    {"IPv6 gap for nothing", "coap://[1:2:3:4::5:6:7:8]", NULL, 8},
    {"IPv6 trailing colon", "coap://[1:2:3:4:5:6:7:]", NULL, 8},
    {"IPv6 long group", "coap://[::12345]", NULL, 8},
    {"IPv6 late IPv4", "coap://[1:2:3:4:5:6:7:1.2.3.4]", NULL, 8},
    {"IPv6 bad IPv4", "coap://[::1.2.3]", NULL, 8},
    {"IPv6 empty", "coap://[]", NULL, 8},
    {"IPv6 without end", "coap://[::1", NULL, 8},
    {"IPv6 and more", "coap://[::1]x", NULL, 12},
    {"U2C-7 empty port", "coap://h:/", "83208161688160", 0},
    {"U2C-7 leading zeros", "coap://h:005683", "8220826168191633", 0},
    {"U2C-7 too large", "coap://h:65536", NULL, 9},
    {"U2C-7 much too large", "coap://h:99999999999999999999", NULL, 9},
    {"port is no number", "coap://h:1x", NULL, 10},
    {"U2C-9", "coap://h/a/%2e%2e/b",
     "832081616881"
     "6162",
     0},
    {"U2C-10", "coap://h/", "83208161688160", 0},
    {"U2C-11 urn", "urn:x:y", "8324f58163783a79", 0},
    {"U2C-11 empty", "a:", "816161", 0},
    {"U2C-11 root", "a:/b", "836161f6816162", 0},
    {"A23", "a:b/../c", "836161f6816163", 0},
    {"A23 dots in front", "a:../b", "836161f5816162", 0},
    {"A23 nothing left", "a:.", "816161", 0},
    {"A23 root behind dots", "a:.//b", "836161f6816162", 0},
    {"A23 two slashes", "a:/.//b", NULL, 2},
    {"A23 gone", "a:b/..", "836161f68160", 0},
    {"U2C-12", "?a%26b&c",
     "8300f68263612662"
     "6163",
     0},
    {"U2C-12 bare", "coap://h?", "8420816168808160", 0},
    {"U2C-13 semicolon", "/a%3Ba", "82f581836161413b6161", 0},
    {"U2C-13 slash", "/a%2Fa", "82f58163612f61", 0},
    {"U2C-13 slash in a fragment", "#%2F", "8400f6f681412f", 0},
    {"U2C-13 ampersand in a fragment", "#&%26",
     "8400f6f682"
     "61264126",
     0},
    {"U2C-14", "https://host%ffname", "8223818364686f737441ff646e616d65", 0},
    {"U2C-14 cut character", "/%C3%28", "82f5818142c328", 0},
    {"U2C-15 colon", "https://alice:x@h", "822383f467616c6963653a786168", 0},
    {"U2C-15 at", "//a%40@h", "82f683f46261406168", 0},
    {"U2C-16 space", "coap://h/a b", NULL, 10},
    {"U2C-16 percent", "coap://h/%zz", NULL, 9},
    {"U2C-16 percent at the end", "coap://h/%4", NULL, 9},
    {"U2C-16 quote in a query", "?a\"", NULL, 2},
    {"U2C-16 caret in userinfo", "//a^@h", NULL, 3},
    {"U2C-16 in a fragment", "#a#", NULL, 2},
    {"U2C-16 in a host", "//a<b", NULL, 3},
    {"two at signs", "//a@b@c", NULL, 5},
    {"not ASCII", "/\xc3\xa9", NULL, 1},
    {"U2C-17", "/e%CC%81", "82f5816365cc81", 0},
    {"no scheme", ":a", NULL, 0},
    {"colon in the first segment", "1a:b", NULL, 0},
    {"empty", "", "80", 0},
    {"dot", ".", "82018160", 0},
    {"dots", "..", "82028160", 0},
    {"up and down", "../../a/./b/../c",
     "8203826161"
     "6163",
     0},
    {"up behind a segment", "a/../../b", "8202816162", 0},
    {"over the root", "/../a", "82f5816161", 0},
    {"up at the end", "/a/b/..", "82f582616160", 0},
    {"empty segment behind a dot", ".//x", "820182606178", 0},
    {"A37", "/.//x", "82f582606178", 0},
    {"AMB-12 brackets", "//%5B%3A%3A1%5D", NULL, 2},
    {"AMB-12 brackets over four labels", "//%5B%3A%3A1.2.3.4%5D", NULL, 2},
    {"brackets over two labels", "//%5B1.2%5D",
     "82f682625b31"
     "62325d",
     0},
};

static void test_uri_parse(void **state)
{
    unsigned failures = 0;
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(from_uri); i++) {
        struct bytes bytes = bytes_from_text(from_uri[i].uri);
        uint8_t buffer[128];
        size_t len = 0;
        struct cri_fault fault = {0, ""};
        enum cri_error error =
            cri_uri_parse(bytes_slice(&bytes), NULL, buffer, sizeof buffer, &len, &fault);
        const char *got = error == CRI_OK ? hex_of(buffer, len) : "";
        bool is_good = from_uri[i].hex == NULL
                           ? error != CRI_OK && fault.offset == from_uri[i].offset
                           : strcmp(got, from_uri[i].hex) == 0;
        if (!is_good) {
            print_error("%s: %s at %zu: %s: %s\n", from_uri[i].id, cri_strerror(error),
                        fault.offset, fault.rule, got);
            failures++;
        }
        bytes_free(&bytes);
    }
    assert_int_equal(failures, 0);
}

static void parse_with(const char *uri, const struct cri_uri_options *options, enum cri_error error,
                       const char *hex)
{
    struct bytes bytes = bytes_from_text(uri);
    uint8_t buffer[128];
    size_t len = 0;
    assert_int_equal(cri_uri_parse(bytes_slice(&bytes), options, buffer, sizeof buffer, &len, NULL),
                     error);
    if (error == CRI_OK) {
        assert_string_equal(hex_of(buffer, len), hex);
    }
    bytes_free(&bytes);
}

static void test_uri_parse_elides_default_port(void **state)
{
    const struct cri_uri_options elide = {.elide_default_port = true};
    (void)state;
    parse_with("coap://h:5683/x", &elide, CRI_OK, "8320816168816178"); /* U2C-8 */
    parse_with("coap://h:05683/x", &elide, CRI_OK, "8320816168816178");
    parse_with("coap://h:5684/x", &elide, CRI_OK, "8320826168191634816178");
    parse_with("urn://h:0/x", &elide, CRI_OK, "832482616800816178");
    parse_with("//h:5683", &elide, CRI_OK, "82f6826168191633");
}

static void test_uri_parse_plain_only(void **state)
{
    const struct cri_uri_options plain = {.plain_only = true};
    (void)state;
    parse_with("/a%2Fb", &plain, CRI_OK, "82f58163612f62");
    parse_with("/a%3Bb", &plain, CRI_ERR_NOT_EXPRESSIBLE, "");
    parse_with("//%21", &plain, CRI_ERR_NOT_EXPRESSIBLE, "");
    parse_with("/a%3Bb/../c", &plain, CRI_OK, "82f5816163"); /* It falls away. */
}

static void test_uri_parse_uses_the_callers_table(void **state)
{
    static const struct cri_scheme own[] = {{999, "lab", 7}};
    const struct cri_scheme_table table = {own, 1};
    const struct cri_uri_options options = {.table = &table, .elide_default_port = true};
    (void)state;
    parse_with("LAB://h:7", &options, CRI_OK, "823903e7816168");
}

static void test_uri_parse_takes_126_times_up(void **state)
{
    char uri[3 * 130 + 2];
    (void)state;
    for (unsigned ups = 126; ups <= 127; ups++) { /* AMB-33 */
        uri[0] = '\0';
        for (unsigned i = 0; i < ups; i++) {
            memcpy(uri + 3 * i, "../", 4);
        }
        memcpy(uri + 3 * ups, "a", 2);
        parse_with(uri, NULL, ups == 126 ? CRI_OK : CRI_ERR_NOT_EXPRESSIBLE, "82187f816161");
    }
}

static void test_uri_parse_refuses_nul(void **state)
{
    static const uint8_t nul[] = {'c', 'o', 'a', 'p', ':', '/', '/', 'h', 0, 'x'};
    static const uint8_t first[] = {0};
    struct cri_fault fault;
    size_t len;
    (void)state;
    assert_int_equal(
        cri_uri_parse((struct cri_slice){nul, sizeof nul}, NULL, NULL, 0, &len, &fault),
        CRI_ERR_URI_SYNTAX);
    assert_int_equal(fault.offset, 8);
    assert_int_equal(cri_uri_parse((struct cri_slice){first, 1}, NULL, NULL, 0, &len, &fault),
                     CRI_ERR_URI_SYNTAX);
}

static void test_uri_writers_say_how_much_they_need(void **state)
{
    struct bytes uri = bytes_from_text("coap://u@example.org:61616/a/../b%FF/%C3%A9?q&%26#f");
    uint8_t buffer[128];
    char text[128];
    size_t whole;
    size_t len;
    struct cri cri;
    (void)state;
    assert_int_equal(cri_uri_parse(bytes_slice(&uri), NULL, buffer, sizeof buffer, &whole, NULL),
                     CRI_OK);
    for (size_t capacity = 0; capacity < whole; capacity++) {
        memset(buffer, 0xaa, sizeof buffer);
        assert_int_equal(cri_uri_parse(bytes_slice(&uri), NULL, buffer, capacity, &len, NULL),
                         CRI_ERR_SPACE);
        assert_int_equal(len, whole);
        assert_int_equal(buffer[capacity], 0xaa);
    }
    assert_int_equal(cri_uri_parse(bytes_slice(&uri), NULL, buffer, whole, &len, NULL), CRI_OK);
    assert_int_equal(cri_decode((struct cri_slice){buffer, len}, NULL, &cri, NULL), CRI_OK);
    assert_int_equal(cri_uri_format(&cri, NULL, text, sizeof text, &whole, NULL), CRI_OK);
    assert_memory_equal(text, "coap://u@example.org:61616/b%FF/%C3%A9?q&%26#f", whole);
    for (size_t capacity = 0; capacity < whole; capacity++) {
        memset(text, 'X', sizeof text);
        assert_int_equal(cri_uri_format(&cri, NULL, text, capacity, &len, NULL), CRI_ERR_SPACE);
        assert_int_equal(len, whole);
        assert_int_equal(text[capacity], 'X');
    }
    bytes_free(&uri);
}

static void test_uri_options_tell_their_size(void **state)
{
    struct {
        struct cri_uri_options known;
        uint64_t later;
    } options = {.known = {.size = sizeof options, .elide_default_port = true}};
    (void)state;
    parse_with("coap://h:5683", &options.known, CRI_OK, "8220816168");
    options.later = 1;
    parse_with("coap://h:5683", &options.known, CRI_ERR_ARGUMENT, "");
    options.known.size = sizeof options.known;
    parse_with("coap://h:5683", &options.known, CRI_OK, "8220816168");
    options.known.size = 1;
    parse_with("coap://h:5683", &options.known, CRI_ERR_ARGUMENT, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uri_options_tell_their_size),
        cmocka_unit_test(test_uri_format),
        cmocka_unit_test(test_uri_parse),
        cmocka_unit_test(test_uri_parse_elides_default_port),
        cmocka_unit_test(test_uri_parse_plain_only),
        cmocka_unit_test(test_uri_parse_uses_the_callers_table),
        cmocka_unit_test(test_uri_parse_takes_126_times_up),
        cmocka_unit_test(test_uri_parse_refuses_nul),
        cmocka_unit_test(test_uri_writers_say_how_much_they_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
