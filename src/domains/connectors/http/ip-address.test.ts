/** Addresses: what is public and what is somebody's own, in every form that an address has. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isInRanges, isRange, parseIp, specialNetworkOf } from './reach.ts'

test('public addresses are public', () => {
  for (const address of [
    '1.1.1.1',
    '8.8.8.8',
    '172.15.0.1',
    '172.32.0.1',
    '100.63.0.1',
    '2606:4700::1111',
    '::ffff:8.8.8.8',
    '2a00::1',
  ])
    assert.equal(specialNetworkOf(address), undefined, address)
})

test('everything else is named', () => {
  const cases: [string, string][] = [
    ['127.0.0.1', 'loopback'],
    ['127.255.255.254', 'loopback'],
    ['::1', 'loopback'],
    ['::ffff:127.0.0.1', 'loopback'],
    ['::ffff:7f00:1', 'loopback'],
    ['0:0:0:0:0:ffff:a9fe:a9fe', 'link-local'],
    ['169.254.169.254', 'link-local'],
    ['fe80::1', 'link-local'],
    ['febf::1', 'link-local'],
    ['10.0.0.1', 'private'],
    ['172.16.0.1', 'private'],
    ['172.31.255.255', 'private'],
    ['192.168.0.1', 'private'],
    ['100.64.0.1', 'carrier'],
    ['0.0.0.0', 'this host'],
    ['255.255.255.255', 'reserved'],
    ['224.0.0.1', 'multicast'],
    ['::', 'not global'],
    ['::127.0.0.1', 'not global'],
    ['64:ff9b::7f00:1', 'not global'],
    ['fc00::1', 'not global'],
    ['fd00:ec2::254', 'not global'],
    ['fec0::1', 'not global'],
    ['ff02::1', 'not global'],
    ['2002:7f00:1::', '6to4'],
    ['2001:0:7f00:1::', 'protocol assignments and tunnels'],
    ['2001:db8::1', 'documentation'],
    ['fe80::1%eth0', 'not an IP address'],
    ['0177.0.0.1', 'not an IP address'],
    ['127.1', 'not an IP address'],
  ]
  for (const [address, network] of cases) assert.equal(specialNetworkOf(address), network, address)
})

test('any IPv4 address is judged the same as its mapped form, in both spellings', () => {
  fc.assert(
    fc.property(fc.ipV4(), (address) => {
      const [a = 0, b = 0, c = 0, d = 0] = parseIp(address) ?? []
      const hex = `::ffff:${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`
      assert.equal(specialNetworkOf(`::ffff:${address}`), specialNetworkOf(address))
      assert.equal(specialNetworkOf(hex), specialNetworkOf(address))
    }),
  )
})

test('any IPv6 address that the platform prints is read, and only the global block can be public', () => {
  fc.assert(
    fc.property(fc.ipV6(), (address) => {
      const { hostname } = new URL(`http://[${address}]/`)
      const bytes = parseIp(hostname.slice(1, -1))
      assert.equal(bytes?.length, 16)
      const isMapped = bytes?.slice(0, 10).every((byte) => byte === 0)
      if (specialNetworkOf(address) === undefined && !isMapped) assert.equal((bytes?.[0] ?? 0) >> 5, 1)
    }),
  )
})

test('ranges hold what is inside them and nothing beside', () => {
  assert.equal(isInRanges('10.1.2.3', ['10.1.0.0/16']), true)
  assert.equal(isInRanges('10.2.0.0', ['10.1.0.0/16']), false)
  assert.equal(isInRanges('::ffff:10.1.2.3', ['10.1.0.0/16']), true)
  assert.equal(isInRanges('127.0.0.1', ['127.0.0.1']), true)
  assert.equal(isInRanges('127.0.0.2', ['127.0.0.1']), false)
  assert.deepEqual(['10.0.0.0/8', '::1/128', '10.0.0.0/33', '10.0/8', 'x'].map(isRange), [
    true,
    true,
    false,
    false,
    false,
  ])
})
