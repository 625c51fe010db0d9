import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { authorize, canSee, decideUnbound, isRoleAtLeast, lowerRole, platformRoles } from './principal.ts'

/** Written out, not computed: rows have the role, columns what is asked for. */
const matrix = {
  reader: { reader: true, writer: false, admin: false },
  writer: { reader: true, writer: true, admin: false },
  admin: { reader: true, writer: true, admin: true },
} as const

for (const role of platformRoles) {
  for (const needed of platformRoles) {
    test(`[FLOW-003] ${role} asking for what needs ${needed}: ${matrix[role][needed] ? 'allowed' : 'refused'}`, () => {
      const decision = authorize({ role }, needed)
      assert.equal(decision.ok, matrix[role][needed])
      if (!decision.ok) assert.equal(decision.code, 'identity.role.insufficient')
    })
  }
}

test('the lower of two roles is neither above the one nor above the other', () => {
  const role = fc.constantFrom(...platformRoles)
  fc.assert(
    fc.property(role, role, (one, other) => {
      const lower = lowerRole(one, other)
      assert.ok(isRoleAtLeast(one, lower) && isRoleAtLeast(other, lower))
      assert.ok(lower === one || lower === other)
    }),
  )
})

test('[FLOW-008] an org role opens what is opened to it, and a platform role below admin opens nothing', () => {
  const finance = { role: 'reader', orgRoles: ['finance', 'ops'] } as const
  assert.equal(canSee(finance, ['finance']), true)
  assert.equal(canSee(finance, ['legal', 'ops']), true)
  assert.equal(canSee(finance, ['legal']), false)
  assert.equal(canSee({ role: 'writer', orgRoles: [] }, ['finance']), false)
  assert.equal(canSee({ role: 'writer', orgRoles: ['financ'] }, ['finance']), false)
})

test('nothing is visible by default: an empty list is closed to all but administrators', () => {
  assert.equal(canSee({ role: 'reader', orgRoles: ['finance'] }, []), false)
  assert.equal(canSee({ role: 'writer', orgRoles: ['finance'] }, []), false)
  assert.equal(canSee({ role: 'admin', orgRoles: [] }, []), true)
})

test('a key that is bound to a workspace may make nothing beside it', () => {
  assert.equal(decideUnbound({ workspaceId: null }).ok, true)
  assert.equal(decideUnbound({ workspaceId: 'w1' }).ok, false)
})
