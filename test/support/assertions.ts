/**
 * Loaded before every test file (`--import`): a test that cites a requirement and makes no assertion fails. The count covers
 * `node:assert/strict`, `t.assert` and the `assert` of fast-check.
 */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, type TestContext } from 'node:test'
import { isMainThread } from 'node:worker_threads'
import { idsInPath } from '../../scripts/requirements/titles.ts'

let seen = 0

export function countAssertion(): void {
  seen += 1
}

/** Getters instead of wrappers: node builds the message of `assert.ok` from the source line of its caller. */
function countReads(target: object): void {
  for (const [name, value] of Object.entries(target)) {
    // Errors and classes do not count; `strict` is the module itself.
    if (typeof value !== 'function' || /^(strict|[A-Z].*)$/.test(name)) continue
    Object.defineProperty(target, name, {
      get: () => {
        countAssertion()
        return value as unknown
      },
    })
  }
}

type Running = TestContext & { readonly passed: boolean; readonly error: unknown }

function watchTests(): void {
  const seenBefore = new WeakMap<object, number>()
  const leftOut = new WeakSet<object>()
  beforeEach((context) => {
    const t = context as TestContext
    seenBefore.set(t, seen)
    countReads(t.assert)
    for (const name of ['skip', 'todo'] as const) {
      const leave = t[name].bind(t)
      t[name] = (message) => {
        leftOut.add(t)
        leave(message)
      }
    }
  })
  afterEach((context) => {
    const t = context as Running
    const ids = idsInPath(t.fullName.split(' > '))
    if (ids.length === 0 || t.error || leftOut.has(t) || seen > (seenBefore.get(t) ?? 0)) return
    throw new Error(`The test cites ${ids.join(', ')} and asserts nothing (node:assert/strict, t.assert or fc.assert)`)
  })
}

// A child process or thread inherits the preload but runs no tests.
if (isMainThread && process.env['NODE_TEST_CONTEXT'] !== undefined && process.argv[1]?.endsWith('.test.ts')) {
  countReads(assert)
  watchTests()
}
