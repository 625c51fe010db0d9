import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { openPageCursors } from './page-cursor.ts'

const cursors = openPageCursors(new Uint8Array(32).fill(1))
const scope = ['listThings', 'org-1', null, 'state=open']

test('a cursor opens where it was sealed and carries its position', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ maxLength: 40 }), { maxLength: 4 }), (position) => {
      assert.deepEqual(cursors.open(scope, cursors.seal(scope, position)), { ok: true, value: position })
    }),
  )
})

test('a cursor of another list, tenant, filter or installation is refused', () => {
  const cursor = cursors.seal(scope, ['a'])
  const others = [
    ['listOther', 'org-1', null, 'state=open'],
    ['listThings', 'org-2', null, 'state=open'],
    ['listThings', 'org-1', null, 'state=done'],
    ['listThings', 'org-1', null],
    ['listThings', 'org-1', '', 'state=open'],
  ]
  for (const other of others) {
    const opened = cursors.open(other, cursor)
    assert.equal(!opened.ok && opened.code, 'cursor_invalid')
  }
  assert.equal(openPageCursors(new Uint8Array(32).fill(2)).open(scope, cursor).ok, false)
})

test('every edit of a cursor is refused', () => {
  const cursor = cursors.seal(scope, ['0197f3b2-c4d5-7a8e-9b0c-1d2e3f405161'])
  fc.assert(
    fc.property(fc.nat(cursor.length), fc.string({ maxLength: 3 }), fc.nat(3), (at, insert, cut) => {
      const edited = cursor.slice(0, at) + insert + cursor.slice(at + cut)
      fc.pre(edited !== cursor)
      assert.equal(cursors.open(scope, edited).ok, false)
    }),
    { numRuns: 2_000 },
  )
  for (const bad of ['', '=', `${cursor}=`, ` ${cursor}`, 'a'.repeat(5_000)])
    assert.equal(cursors.open(scope, bad).ok, false, bad)
})
