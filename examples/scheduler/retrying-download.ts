/**
 * A download from a server that fails twice: each failure has its own run and log, and a retry follows after a delay. A file
 * that does not exist is not retried.
 *
 *   npm run example examples/scheduler/retrying-download.ts
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { readRetryChain, submitJob } from '@concordhq/concord/scheduler'
import { openExample } from './open-example.ts'

let asked = 0
const server = createServer((request, response) => {
  if (request.url !== '/data.csv') return void response.writeHead(404).end()
  asked += 1
  if (asked === 1) request.socket.destroy()
  else if (asked === 2) response.writeHead(503).end('busy')
  else response.end('a,b\n1,2\n')
}).listen(0, '127.0.0.1')
await once(server, 'listening')
const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

/** Exit code 3 means that a retry is useless. */
const script = `const { url, to } = JSON.parse(require('node:fs').readFileSync(0, 'utf8'))
fetch(url).then(async (answer) => {
  if (!answer.ok) { console.error('the server said ' + answer.status); process.exitCode = answer.status < 500 ? 3 : 1; return }
  require('node:fs').writeFileSync(to, await answer.text())
}, (error) => { console.error(error.message); process.exitCode = 1 })`
using example = openExample([
  {
    job_type: 'download',
    retry_policy: {
      max_retries: 5,
      delay: { kind: 'exponential', baseMs: 20, factor: 2, capMs: 200 },
      exit_codes: [1],
    },
    runner: { command: process.execPath, args: ['-e', script], timeout: '30s' },
  },
])
const { scheduler, folder } = example
const good = submitJob(scheduler, { job_type: 'download', params: { url: `${address}/data.csv`, to: 'data.csv' } })
const lost = submitJob(scheduler, { job_type: 'download', params: { url: `${address}/gone.csv`, to: 'gone.csv' } })
assert.ok(good.ok && lost.ok)
await example.run()
server.close()

assert.equal(readFileSync(join(folder, 'data.csv'), 'utf8'), 'a,b\n1,2\n')
const chain = readRetryChain(scheduler, good.value.job_id)
assert.ok(chain.ok)
assert.deepEqual(
  chain.value.map(({ run }) => run?.status),
  ['FAILED', 'FAILED', 'COMPLETED'],
)
assert.match(chain.value[1]?.run?.error ?? '', /exit code 1: the server said 503/)
const gone = readRetryChain(scheduler, lost.value.job_id)
assert.ok(gone.ok)
assert.deepEqual(
  gone.value.map(({ run }) => [run?.exit_code, run?.retry_decided]),
  [[3, 'not_listed']],
)
console.log('downloaded at the third attempt; the missing file was requested once')
