# SPDX-License-Identifier: BSD-2-Clause
"""Results that differ from the vector's own, because docs/CONFORMANCE.md decides otherwise.

Key: vector id and field. Value: the result, None for a failure, and the row that decides.
Only vectors that are marked ambiguous may stand here; run.py checks it.
"""

# PET-3 alone says what is minimal: octets that to-uri would percent-encode in plain
# text as well may stand in a byte string (AMB-21: accept both).
_PET_ACCEPTED = {
    "di-pet-hash-path": ("full", "http://h/a%23"),
    "di-pet-amp-query": ("full", "http://h?a%26b"),
    "di-pet-colon-host": ("relative", "//a%3Aa"),
    "di-gen-0094": ("full", "foo:%01"),
    "di-gen-0111": ("full", "a://_%7Bczy.1%CE%A9x%FFy._/%00"),
}

DECISIONS = {
    # A complete UTF-8 sequence is never minimal in a byte string, NFC or not.
    "dv-pet-nfc-kept.check": (None, "PET-3"),
    "dv-pet-nfc-kept.strict": (None, "PET-3"),
    "dv-pet-nfc-kept.encoded": (None, "PET-3"),
    # ... so characters stay text, as the URI has them.
    "fu-path-nfd.cri": ("8320816168816365cc81", "U2C-17, PET-3"),
    "fu-gen-0071.cri": ("83238260622f648363e284ab6060", "U2C-17, PET-3"),
    "fu-gen-0238.cri": ("8324f68482613b42c0806430e284ab612d60", "U2C-17, PET-3"),
    # Ports: by value, and left out where the scheme's default.
    "fu-port-00.cri": ("822082616800", "U2C-7"),
    "fu-gen-0153.cri": ("84616186f4616582615f412164316562626262620082617e623d3981645f3d5865", "U2C-7"),
    "fu-gen-0161.cri": ("84392f248262797a185082612d60818361314140622e65", "U2C-7"),
    "fu-port-default.cri": ("8320816168816178", "U2C-8"),
    "nu-port-default.normalized": ("coap://h", "U2C-8"),
    "nu-gen-0174.normalized": ("file://%C0%80y:0?1b~.(Z.%A9", "U2C-7"),
    # Labels that spell an address make no CRI, so there is nothing to compare.
    "cm-ip-name.result": (None, "CRI-24"),
    "cm-ip-name.result_fragment": (None, "CRI-24"),
    "rs-gen-0286.cri": (None, "PET-3"),
    # What a CoAP request cannot say makes the decomposition fail.
    "to-userinfo-ip.result": (None, "C2O-15"),
    "to-ip6-zone.result": (None, "C2O-17"),
}
for _id, (_class, _uri) in _PET_ACCEPTED.items():
    DECISIONS[f"{_id}.check"] = (_class, "PET-3, AMB-21")
    DECISIONS[f"{_id}.strict"] = (_class, "PET-3, AMB-21")
    DECISIONS[f"{_id}.to-uri"] = (_uri, "PET-3, AMB-21")
