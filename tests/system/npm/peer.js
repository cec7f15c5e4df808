// SPDX-License-Identifier: BSD-2-Clause
// The npm package `coap` as a peer of the system tests.
//
//   node peer.js request JSON   one request; prints the response as a line of JSON, with
//                               observe: N so many notifications
//   node peer.js serve HOST     an origin server on a free port, which is printed;
//                               it ends when its standard input does
'use strict'

const coap = require('coap')

function show (value) {
  process.stdout.write(JSON.stringify(value) + '\n')
}

function request (what) {
  const req = coap.request({
    hostname: what.hostname,
    port: what.port,
    method: what.method,
    pathname: what.pathname,
    observe: what.observe > 0
  })
  for (const [name, hex] of what.options) {
    req.setOption(name, Buffer.from(hex, 'hex'))
  }
  req.on('error', (error) => {
    show({ error: error.message })
    process.exit(1)
  })
  req.on('response', (res) => {
    if (what.observe > 0) {
      observe(res, what.observe)
      return
    }
    const payload = res.payload.toString('hex')
    show({ code: res.code, payload, payloads: [payload] })
    process.exit(0)
  })
  const body = Buffer.from(what.payload, 'hex')
  if (body.length > 1024) {
    req.setOption('Block1', Buffer.from([6])) // blocks of 1024 bytes, which it makes itself
  }
  req.end(body)
}

function observe (res, count) {
  const payloads = []
  res.on('data', (data) => {
    payloads.push(data.toString('hex'))
    if (payloads.length >= count) {
      show({ code: res.code, payloads })
      process.exit(0)
    }
  })
}

// What the interop matrix asks for: a place to store, and a clock to observe.
let stored = Buffer.alloc(0)
let ticks = 0

function resource (req, res) {
  if (req.url === '/interop/store' && req.method === 'PUT') {
    stored = req.payload
    res.code = '2.04'
    res.end()
  } else if (req.url === '/interop/store') {
    res.end(stored)
  } else if (req.url === '/interop/large') {
    res.end(Buffer.alloc(4000, 'n'))
  } else if (req.url === '/interop/time' && req.headers.Observe === 0) {
    const timer = setInterval(() => res.write(String(++ticks)), 500)
    res.on('finish', () => clearInterval(timer))
    res.write(String(ticks))
  } else if (req.url === '/interop/time') {
    res.end(String(ticks))
  } else {
    res.code = '4.04'
    res.end()
  }
}

function serve (host) {
  const server = coap.createServer({ type: host.includes(':') ? 'udp6' : 'udp4' }, (req, res) => {
    if (req.url.startsWith('/interop/')) {
      resource(req, res)
      return
    }
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
