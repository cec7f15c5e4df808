// SPDX-License-Identifier: BSD-2-Clause
// A device that calls home over a WebSocket (RFC 8323 section 4), on the npm package ws.
//
//   node device.js URL CA CERTIFICATE KEY
//
// It shows its certificate, sends its CSM, and answers requests: GET with what was PUT before, at
// first 0. "open" is printed when the proxy's CSM has come, "closed" at the end of the connection;
// it ends when its standard input does.
'use strict'

const fs = require('fs')
const { WebSocket } = require('ws')

const CSM = 0xe1
const PING = 0xe2
const PONG = 0xe3
const [GET, PUT] = [1, 3]
const [CHANGED, CONTENT, METHOD_NOT_ALLOWED] = [0x44, 0x45, 0x85]

const [url, ca, certificate, key] = process.argv.slice(2)
let value = Buffer.from('0')

function encode (code, token, payload) {
  const parts = [Buffer.from([token.length, code]), token]
  if (payload.length > 0) parts.push(Buffer.from([0xff]), payload)
  return Buffer.concat(parts)
}

// What is behind the options; those are skipped.
function payloadOf (data, at) {
  const extended = (nibble) => {
    if (nibble === 13) return data[at++] + 13
    if (nibble === 14) { at += 2; return data.readUInt16BE(at - 2) + 269 }
    return nibble
  }
  while (at < data.length && data[at] !== 0xff) {
    const head = data[at++]
    extended(head >> 4)
    const length = extended(head & 15)
    at += length
  }
  return data.subarray(at + 1)
}

function answer (code, token, payload) {
  if (code === PUT) {
    value = Buffer.from(payload)
    return encode(CHANGED, token, Buffer.alloc(0))
  }
  return code === GET
    ? encode(CONTENT, token, value)
    : encode(METHOD_NOT_ALLOWED, token, Buffer.alloc(0))
}

const socket = new WebSocket(url, 'coap', {
  ca: fs.readFileSync(ca), cert: fs.readFileSync(certificate), key: fs.readFileSync(key)
})

socket.on('open', () => socket.send(Buffer.from([0, CSM])))
socket.on('close', () => process.stdout.write('closed\n'))
socket.on('error', (error) => process.stdout.write(error.message + '\n'))
socket.on('message', (data) => {
  const tokenLength = data[0] & 15
  const [code, token] = [data[1], data.subarray(2, 2 + tokenLength)]
  if (code === CSM) {
    process.stdout.write('open\n')
  } else if (code === PING) {
    socket.send(encode(PONG, token, Buffer.alloc(0)))
  } else if (code > 0 && code < 32) {
    socket.send(answer(code, token, payloadOf(data, 2 + tokenLength)))
  }
})
process.stdin.on('end', () => process.exit(0)).resume()
