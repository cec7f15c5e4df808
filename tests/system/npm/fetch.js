// SPDX-License-Identifier: BSD-2-Clause
// An HTTP client: the fetch() of Node.js, which is the package undici.
//
//   node fetch.js BASE    asks BASE + "echo" and BASE + "long", and follows BASE + "sensor" until an
//                         event has 20.5; prints what has come as JSON
'use strict'

const base = process.argv[2]

async function follow (url) {
  const control = new AbortController()
  const answer = await fetch(url, {
    headers: { Accept: 'text/event-stream' }, signal: control.signal
  })
  const events = []
  let text = ''
  for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
    text += piece
    const parts = text.split('\n\n')
    text = parts.pop()
    for (const part of parts) {
      const data = /^data: (.*)$/m.exec(part)
      if (data) events.push(data[1])
      if (data && data[1] === '20.5') {
        control.abort()
        return events
      }
      if (data) console.log(data[1]) // the next state may come
    }
  }
  return events
}

async function * pieces () {
  for (let i = 0; i < 100; i++) yield Buffer.alloc(1000, 65 + i % 26)
}

async function main () {
  const said = {}
  const put = await fetch(base + 'echo', {
    method: 'PUT', body: pieces(), duplex: 'half', headers: { 'Content-Type': 'text/plain' }
  })
  said.put = [put.status, await put.text()]
  const long = await fetch(base + 'long')
  said.long = [long.status, (await long.arrayBuffer()).byteLength]
  const missing = await fetch(base + 'missing')
  said.missing = [missing.status, await missing.text(), missing.headers.get('content-type')]
  said.events = await follow(base + 'sensor').catch((error) => [String(error)])
  console.log(JSON.stringify(said))
}

main()
