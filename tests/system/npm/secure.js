// SPDX-License-Identifier: BSD-2-Clause
"use strict";
// One GET over coaps with the npm package node-coap-client (DTLS in JavaScript).
//   node secure.js '{"url": "coaps://127.0.0.1:5684/", "identity": "...", "key": "...",
//                    "options": [[35, "hex"]]}'
// The package knows no options of one's own: they are added where it makes its messages.
const { CoapClient } = require("node-coap-client");
const { BinaryOption } = require("node-coap-client/build/Option");

const what = JSON.parse(process.argv[2]);
const url = new URL(what.url.replace(/^coaps/, "https"));
const make = CoapClient.createMessage;

CoapClient.createMessage = (type, code, id, token, options, payload) => {
    const own = what.options.map(
        ([number, hex]) => new BinaryOption(number, "own", false, 0, 1034, Buffer.from(hex, "hex")));
    const all = code.value === 0 ? options : options.concat(own);
    return make(type, code, id, token, all && all.sort((a, b) => a.code - b.code), payload);
};

CoapClient.setSecurityParams(url.hostname, { psk: { [what.identity]: what.key } });
CoapClient.request(what.url, "get", undefined, { keepAlive: false, retransmit: true })
    .then((answer) => {
        console.log(JSON.stringify({
            code: answer.code.toString(),
            payload: answer.payload ? answer.payload.toString("hex") : "" }));
        process.exit(0);
    })
    .catch((error) => {
        console.log(JSON.stringify({ error: String(error) }));
        process.exit(1);
    });
