import assert from 'node:assert/strict'
import { test } from 'node:test'
import { networkMountName } from './network-mount.ts'

test('network mounts are known by their type, also when the type has a sign', () => {
  const types = [0x6969, 0xff534d42, 0xff534d42 | 0, 0x01021997, 0xef53]
  assert.deepEqual(types.map(networkMountName), ['NFS', 'CIFS', 'CIFS', '9p', undefined])
})
