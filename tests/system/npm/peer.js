// SPDX-License-Identifier: BSD-2-Clause
// The npm package `coap` as a peer of the system tests.
//
//   node peer.js request JSON   one request; prints the response as a line of JSON
//   node peer.js serve HOST     an origin server on a free port, which is printed;
//                               it ends when its standard input does
'use strict'

const coap = require('coap')

function show (value) {
  process.stdout.write(JSON.stringify(value) + '\n')
}

function request (what) {
  const req = coap.request({
    hostname: what.hostname, port: what.port, method: what.method, pathname: what.pathname
  })
  for (const [name, hex] of what.options) {
    req.setOption(name, Buffer.from(hex, 'hex'))
  }
  req.on('error', (error) => {
    show({ error: error.message })
    process.exit(1)
  })
  req.on('response', (res) => {
    show({ code: res.code, payload: res.payload.toString('hex') })
    process.exit(0)
  })
  req.end(Buffer.from(what.payload, 'hex'))
}

function serve (host) {
  const server = coap.createServer({ type: host.includes(':') ? 'udp6' : 'udp4' }, (req, res) => {
    res.code = '2.05'
    res.setOption('ETag', Buffer.from([0, 1, 2]))
    res.end(req.method + ' ' + req.url + ' ' + req.payload.toString('hex'))
  })
  server.listen(0, host, () => show({ port: server._sock.address().port }))
  process.stdin.on('end', () => process.exit(0)).resume()
}

if (process.argv[2] === 'request') {
  request(JSON.parse(process.argv[3]))
} else {
  serve(process.argv[3])
}
