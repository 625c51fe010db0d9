/** Requests that try to reach what is not theirs: real servers on loopback count every connection that gets through. */
import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { openTestGate, type TestGate } from '#test/connectors'
import type { ConnectorDefinition } from '../connector.ts'
import { httpConnector } from './http-connector.ts'
import type { Reach } from './reach.ts'
import type { Resolve } from './request.ts'

const SECRET = 'the-inside-of-the-house'

/** What each name of the tests stands for; `rebind` changes with every question. */
const names: Record<string, readonly string[] | (() => readonly string[])> = {}
const resolve: Resolve = (name) => {
  const known = names[name]
  const addresses = typeof known === 'function' ? known() : known
  if (!addresses) return Promise.reject(Object.assign(new Error('not found'), { code: 'ENOTFOUND' }))
  return Promise.resolve(addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })))
}

function fetcher(name: string, port: number, reach: Partial<Reach>): ConnectorDefinition {
  return httpConnector({
    name,
    description: 'Fetches any address.',
    base_url: `http://door.test:${port}/`,
    reach: { hosts: ['*'], allow_http: true, ...reach },
    resolve,
    breaker: { failures: 1_000, open_ms: 1 },
    operations: [
      {
        name: 'get',
        description: 'Gets a page.',
        method: 'GET',
        url_from: 'url',
        answer: 'text',
        input: z.strictObject({ url: z.string() }),
        output: z.strictObject({ status: z.int(), text: z.string() }),
        side_effect_class: 'none',
        timeout_ms: 60_000,
      },
    ],
  })
}

describe('reach of the HTTP connector', () => {
  let gate: TestGate
  let inside: Server
  let insideSix: Server | undefined
  let door: Server
  let port = 0
  let connections = 0

  const listen = (server: Server, host: string, at: number) =>
    new Promise<number>((done, fail) => {
      server.once('error', fail)
      server.listen(at, host, () => done((server.address() as AddressInfo).port))
    })

  before(async () => {
    const secretServer = () =>
      createServer((_request, response) => response.end(SECRET)).on('connection', () => {
        connections += 1
      })
    inside = secretServer()
    port = await listen(inside, '127.0.0.1', 0)
    const six = secretServer()
    insideSix = await listen(six, '::1', port).then(
      () => six,
      () => undefined,
    )
    // The one allowed place; it sends everybody on to wherever the path says.
    door = createServer((request, response) => {
      const to = new URL(request.url ?? '/', 'http://door.test').searchParams.get('to')
      if (to === null) return void response.end('the door')
      response.writeHead(Number(new URL(request.url ?? '/', 'http://door.test').searchParams.get('as') ?? '302'), {
        location: to,
      })
      response.end()
    })
    await listen(door, '127.0.0.2', port)
    Object.assign(names, {
      'door.test': ['127.0.0.2'],
      'inside.test': ['127.0.0.1'],
      'six.test': ['::1'],
      'mapped.test': ['::ffff:127.0.0.1'],
      'mixed.test': ['127.0.0.2', '127.0.0.1'],
      'zone.test': ['fe80::1%lo'],
      'metadata.test': ['169.254.169.254'],
      localhost: ['127.0.0.1', '::1'],
    })
    gate = await openTestGate([
      fetcher('closed', port, {}),
      fetcher('door', port, { private_networks: ['127.0.0.2/32'] }),
      fetcher('open', port, { private_networks: ['127.0.0.0/8', '::1'] }),
      fetcher('listed', port, { hosts: ['door.test', '*.good.test'], private_networks: ['127.0.0.0/8'] }),
    ])
  })
  after(async () => {
    await gate.close()
    for (const server of [inside, insideSix, door])
      if (server) await new Promise((done) => server.close(done).closeAllConnections())
  })

  const hosts = [
    '127.0.0.1',
    '127.1',
    '127.0.1',
    '127.000.000.001',
    '2130706433',
    '0x7f000001',
    '0x7F.1',
    '0x7f.0x0.0x0.0x1',
    '0177.0.0.1',
    '0177.0.0.01',
    '017700000001',
    '00000177.1',
    '127.0.0.1.',
    '127.0.0.1%2e',
    '%31%32%37.0.0.1',
    '①②⑦.⓪.⓪.①',
    '127。0。0。1',
    '１２７.0.0.1',
    '0',
    '0.0.0.0',
    '0x0',
    'localhost',
    'LOCALHOST',
    'localhost.',
    'inside.test',
    'INSIDE.test.',
    'six.test',
    'mapped.test',
    'mixed.test',
    'zone.test',
    'metadata.test',
    '[::1]',
    '[0:0:0:0:0:0:0:1]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[0:0:0:0:0:ffff:7f00:0001]',
    '[::127.0.0.1]',
    '[64:ff9b::127.0.0.1]',
    '[64:ff9b:1::7f00:1]',
    '[2002:7f00:1::]',
    '[2001:0:7f00:1::]',
    '[fe80::1]',
    '[fec0::1]',
    '[fc00::1]',
    '[::]',
    '169.254.169.254',
    '[fd00:ec2::254]',
    '10.0.0.1',
    '172.16.0.1',
    '192.168.1.1',
    '100.100.100.200',
    '[ff02::1]',
    '224.0.0.1',
    '127.0.0.2@127.0.0.1',
    'door.test@127.0.0.1',
    '127.0.0.1\t',
    '127.0.0\n.1',
  ]

  test(`${hosts.length} spellings of what is inside: none of them is connected to`, async () => {
    assert.ok(hosts.length >= 50)
    for (const host of hosts) {
      const result = await gate.call('closed', 'get', { url: `http://${host}:${port}/` })
      assert.equal(result.ok, false, host)
      assert.ok(['permission_denied', 'transient_connector_error'].includes(result.error?.error_class ?? ''), host)
      assert.equal(result.error?.happened, 'no', host)
    }
    assert.equal(connections, 0)
  })

  test('other spellings of the address itself: schemes, backslashes, ports, missing parts', async () => {
    const urls = [
      `http:\\\\127.0.0.1:${port}\\`,
      `http:/127.0.0.1:${port}/`,
      `http:127.0.0.1:${port}`,
      `//127.0.0.1:${port}/`,
      `file:///etc/passwd`,
      `ftp://127.0.0.1:${port}/`,
      `gopher://127.0.0.1:${port}/_`,
      `data:text/plain,hello`,
      `javascript:alert(1)`,
      `http://door.test:22/`,
      `http://127.0.0.1:${port}#@door.test/`,
      `http://door.test:${port}@127.0.0.1:${port}/`,
      `http://[::1`,
      ``,
      ` `,
      `http://`,
      `unix:/var/run/x.sock`,
    ]
    for (const url of urls) {
      const result = await gate.call('closed', 'get', { url })
      // What looks like a password in an address is refused even before the address is.
      assert.ok(['permission_denied', 'validation_error'].includes(result.error?.error_class ?? ''), url)
      assert.equal(result.error?.happened, 'no', url)
    }
    assert.equal(connections, 0)
  })

  test('redirects from an allowed place: every hop is decided like the first', async () => {
    const targets = [
      ...hosts.filter((host) => /^[!-~]+$/.test(host) && !host.includes('@')).map((host) => `http://${host}:${port}/`),
      `//127.0.0.1:${port}/`,
      `//inside.test:${port}/`,
      'file:///etc/passwd',
      `http://inside.test:${port}/`,
      `http://user:pass@door.test:${port}/`,
    ]
    for (const [at, to] of targets.entries()) {
      const as = ['301', '302', '303', '307', '308'][at % 5] ?? '302'
      const url = `http://door.test:${port}/?as=${as}&to=${encodeURIComponent(to)}`
      const result = await gate.call('door', 'get', { url })
      assert.equal(result.ok, false, to)
      assert.ok(!JSON.stringify(result).includes(SECRET))
    }
    assert.equal(connections, 0)
    // A chain of allowed hops that ends inside.
    const chain = `http://door.test:${port}/?to=${encodeURIComponent(`/?to=${encodeURIComponent(`http://127.0.0.1:${port}/`)}`)}`
    assert.equal((await gate.call('door', 'get', { url: chain })).error?.error_class, 'permission_denied')
    const circle = `http://door.test:${port}/?to=${encodeURIComponent('?to=%3Fto%3Dx')}`
    assert.equal((await gate.call('door', 'get', { url: circle })).ok, true)
    assert.equal(connections, 0)
  })

  test('a name that changes its mind between question and connection is asked once per hop, and dialled as it was answered', async () => {
    let asked = 0
    names['rebind.test'] = () => (++asked % 2 === 1 ? ['127.0.0.2'] : ['127.0.0.1'])
    const first = await gate.call('door', 'get', { url: `http://rebind.test:${port}/` })
    assert.deepEqual([first.ok, asked], [true, 1])
    assert.deepEqual((first.output as { text: string }).text, 'the door')
    asked = 0
    const again = await gate.call('door', 'get', {
      url: `http://rebind.test:${port}/?to=${encodeURIComponent(`http://rebind.test:${port}/`)}`,
    })
    assert.deepEqual([again.error?.error_class, asked], ['permission_denied', 2])
    assert.equal(connections, 0)
  })

  test('control: where it is allowed, the same requests do get there', async () => {
    const before = connections
    for (const host of ['127.0.0.1', '2130706433', 'inside.test', '[::ffff:127.0.0.1]']) {
      const result = await gate.call('open', 'get', { url: `http://${host}:${port}/` })
      assert.equal((result.output as { text?: string } | null)?.text, SECRET, host)
    }
    const redirected = await gate.call('open', 'get', {
      url: `http://door.test:${port}/?to=${encodeURIComponent(`http://127.0.0.1:${port}/`)}`,
    })
    assert.equal(redirected.ok, true)
    assert.equal(connections - before, 5)
  })

  test('a host list is exact, or everything below a name', async () => {
    Object.assign(names, { 'a.good.test': ['127.0.0.1'], 'good.test': ['127.0.0.1'], 'evilgood.test': ['127.0.0.1'] })
    const call = async (host: string) => (await gate.call('listed', 'get', { url: `http://${host}:${port}/` })).ok
    assert.deepEqual(
      await Promise.all(
        ['a.good.test', 'good.test', 'evilgood.test', 'a.good.test.evil.test', 'inside.test', 'door.test'].map(call),
      ),
      [true, false, false, false, false, true],
    )
  })
})
