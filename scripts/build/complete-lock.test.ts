import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { completeLock, findUnlocked } from './complete-lock.ts'

const optionalDependencies = { 'tool-linux-x64': '1.0.0', 'tool-darwin-arm64': '1.0.0', 'tool-linux-x64-musl': '1.0.0' }
const lock = {
  lockfileVersion: 3,
  packages: {
    '': {},
    'node_modules/tool': { version: '1.0.0', dev: true, optionalDependencies },
    'node_modules/tool-linux-x64': { version: '1.0.0', dev: true },
  },
}

describe('completing a lock file', () => {
  test('optional packages without an entry are found', () => {
    assert.deepEqual(
      findUnlocked(lock).map(({ name }) => name),
      ['tool-darwin-arm64', 'tool-linux-x64-musl'],
    )
  })

  test('they are added with their platform; nothing else changes', () => {
    assert.deepEqual(completeLock(lock), {
      lockfileVersion: 3,
      packages: {
        ...lock.packages,
        'node_modules/tool-darwin-arm64': {
          version: '1.0.0',
          cpu: ['arm64'],
          dev: true,
          optional: true,
          os: ['darwin'],
        },
        'node_modules/tool-linux-x64-musl': {
          version: '1.0.0',
          cpu: ['x64'],
          dev: true,
          libc: ['musl'],
          optional: true,
          os: ['linux'],
        },
      },
    })
    assert.deepEqual(findUnlocked(completeLock(lock)), [])
  })

  test('a name without a platform is not guessed', () => {
    const odd = { packages: { 'node_modules/tool': { optionalDependencies: { fsevents: '2.0.0' } } } }
    assert.throws(() => completeLock(odd), /fsevents is not locked/)
  })
})
