// SPDX-License-Identifier: BSD-2-Clause
// An origin server for CoAP over WebSockets (RFC 8323), on the npm package ws.
//
//   node web.js HOST [CERTIFICATE KEY]   on a free port, which is printed; over TLS where
//                                        there are files; it ends when its standard input does
//
// GET answers with the path and query as text, or with what was PUT there. GET /gone ends
// the connection without a word.
'use strict'

const fs = require('fs')
const { WebSocketServer } = require('ws')

const URI_PATH = 11
const URI_QUERY = 15
const CSM = 0xe1
const PING = 0xe2
const PONG = 0xe3
const [GET, PUT] = [1, 3]
const [CHANGED, CONTENT, METHOD_NOT_ALLOWED] = [0x44, 0x45, 0x85]

const [host, certificate, key] = process.argv.slice(2)
const stored = new Map()

function decode (data) {
  const tokenLength = data[0] & 15
  const message = { code: data[1], token: data.subarray(2, 2 + tokenLength), options: [] }
  let at = 2 + tokenLength
  let number = 0
  const extended = (nibble) => {
    if (nibble === 13) return data[at++] + 13
    if (nibble === 14) { at += 2; return data.readUInt16BE(at - 2) + 269 }
    return nibble
  }
  while (at < data.length && data[at] !== 0xff) {
    const head = data[at++]
    number += extended(head >> 4)
    const length = extended(head & 15)
    message.options.push([number, data.subarray(at, at + length)])
    at += length
  }
  message.payload = data.subarray(at + 1)
  return message
}

function encode (code, token, payload) {
  const parts = [Buffer.from([token.length, code]), token]
  if (payload.length > 0) parts.push(Buffer.from([0xff]), payload)
  return Buffer.concat(parts)
}

function texts (message, wanted) {
  return message.options.filter(([number]) => number === wanted).map(([, value]) => value.toString())
}

function answer (message) {
  const path = '/' + texts(message, URI_PATH).join('/')
  const query = texts(message, URI_QUERY).map((text, index) => (index ? '&' : '?') + text).join('')
  if (message.code === PUT) {
    stored.set(path, Buffer.from(message.payload))
    return encode(CHANGED, message.token, Buffer.alloc(0))
  }
  if (message.code !== GET) {
    return encode(METHOD_NOT_ALLOWED, message.token, Buffer.alloc(0))
  }
  const text = Buffer.from('made with ws: ' + path + query)
  return encode(CONTENT, message.token, stored.get(path) || text)
}

const server = certificate
  ? require('https').createServer({ cert: fs.readFileSync(certificate), key: fs.readFileSync(key) })
  : require('http').createServer()
const sockets = new WebSocketServer({
  server,
  path: '/.well-known/coap',
  handleProtocols: (protocols) => protocols.has('coap') ? 'coap' : false
})

sockets.on('connection', (socket) => {
  const csm = Buffer.from([0, CSM, 0x23, 0x20, 0, 0]) // Max-Message-Size 2 MiB
  socket.send(csm)
  socket.on('message', (data) => {
    const message = decode(data)
    if (message.code === PING) {
      socket.send(encode(PONG, message.token, Buffer.alloc(0)))
    } else if (message.code > 0 && message.code < 32) {
      if (texts(message, URI_PATH)[0] === 'gone') {
        socket.terminate()
      } else {
        socket.send(answer(message))
      }
    }
  })
})

server.listen(0, host, () => {
  process.stdout.write(JSON.stringify({ port: server.address().port }) + '\n')
})
process.stdin.on('end', () => process.exit(0)).resume()
