/** The people commands: the requests, how a person is found, and the output. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Problem, runAgainst } from '#test/recorded-server'

const ADA = 'user_0197f3b2c4d57a8e9b0c1d2e3f405163'
const WS = 'ws_0197f3b2c4d57a8e9b0c1d2e3f405162'
const ada = {
  user_id: ADA,
  external_id: 'local:ada',
  email: 'ada@example.com',
  role: 'writer',
  org_roles: ['finance'],
  created_at: '2026-05-01T10:00:00.000Z',
  deactivated_at: null,
}
const UNTIL = '2027-01-31T00:00:00Z'
const delegation = { delegation_id: 'deleg_1', from: 'local:ada', to: 'local:bo', until: UNTIL, ended_at: null }
const invited = { ...ada, invitation: 'ck_1_secret', invitation_expires_at: '2026-05-08T10:00:00.000Z' }
const list = {
  'GET /people?limit=500': { items: [ada, { ...ada, user_id: 'user_2', external_id: 'auth0|bo', email: null }] },
}

describe('people', () => {
  for (const [args, line, body] of [
    [['invite', 'bo'], 'POST /people', { external_id: 'local:bo', role: 'writer' }],
    [
      ['invite', 'auth0|bo', '--role', 'admin', '--email', 'b@x.io'],
      'POST /people',
      { external_id: 'auth0|bo', role: 'admin', email: 'b@x.io' },
    ],
    [['invite', 'ada', '--again'], `POST /people/${ADA}/invite`, {}],
    [['role', 'ada', 'admin'], `POST /people/${ADA}/role`, { role: 'admin' }],
    [['role', 'local:ada', 'admin'], `POST /people/${ADA}/role`, { role: 'admin' }],
    [['role', 'ada@example.com', 'admin'], `POST /people/${ADA}/role`, { role: 'admin' }],
    [['role', ADA, 'admin'], `POST /people/${ADA}/role`, { role: 'admin' }],
    [['grant', 'ada', 'ops'], `POST /people/${ADA}/org-roles`, { org_role: 'ops' }],
    [['revoke', 'ada', 'ops'], `DELETE /people/${ADA}/org-roles/ops`, undefined],
    [['join', 'ada', WS], `POST /workspaces/${WS}/members`, { user_id: ADA }],
    [['leave', 'ada', WS], `DELETE /workspaces/${WS}/members/${ADA}`, undefined],
    [['deactivate', 'ada', '--yes', '--reason', 'left'], `POST /people/${ADA}/deactivate`, { reason: 'left' }],
    [['reactivate', 'ada'], `POST /people/${ADA}/reactivate`, {}],
    [
      ['delegate', '--from', 'ada', '--to', 'bo', '--until', UNTIL],
      'POST /delegations',
      { from: 'ada', to: 'bo', until: UNTIL },
    ],
    [['delegate', '--to', 'bo', '--until', UNTIL], 'POST /delegations', { to: 'bo', until: UNTIL }],
    [['delegations'], 'GET /delegations?limit=500', undefined],
    [['undelegate', 'deleg_1'], 'DELETE /delegations/deleg_1', undefined],
  ] as const) {
    test(`people ${args.join(' ')} sends ${line}`, async () => {
      const answer = { ...invited, changed: true, ...delegation, items: [delegation] }
      const { code, heard, err } = await runAgainst({ ...list, [line]: answer }, ['people', ...args])
      assert.equal(code, 0, err)
      const last = heard.at(-1)
      assert.deepEqual([last?.line, last?.body], [line, body])
    })
  }

  test('standard output has only the invitation; standard error explains the next step', async () => {
    const { out, err } = await runAgainst({ 'POST /people': invited }, ['people', 'invite', 'ada'])
    assert.equal(out, 'ck_1_secret\n')
    assert.match(err, /local:ada.*concord people redeem/)
  })

  test('redeem sends no credential and prints the key', async () => {
    const answers = { 'POST /invitations/redeem': { key: 'ck_2_secret' } }
    const { out, heard } = await runAgainst(answers, ['people', 'redeem', 'ck_1_secret'])
    assert.equal(out, 'ck_2_secret\n')
    assert.equal(heard[0]?.headers['authorization'], undefined)
    assert.deepEqual(heard[0]?.body, { invitation: 'ck_1_secret' })
  })

  test('for an unknown role, --create is the next step', async () => {
    const problem = new Problem(404, 'identity.org_role.not_found')
    const answers = { ...list, [`POST /people/${ADA}/org-roles`]: problem }
    const { code, err } = await runAgainst(answers, ['people', 'grant', 'ada', 'ops'])
    assert.equal(code, 65)
    assert.match(err, /Add --create/)
  })

  test('grant --create creates the role first; an existing role is not an error', async () => {
    const answers = {
      ...list,
      'POST /org-roles': new Problem(409, 'identity.org_role.slug_taken'),
      [`POST /people/${ADA}/org-roles`]: { changed: false },
    }
    const { code, out, heard } = await runAgainst(answers, ['people', 'grant', 'ada', 'ops', '--create'])
    assert.deepEqual([code, out, heard.length], [0, 'nothing changed\n', 3])
  })

  test('a person on the second page is found, and two people of one name on two pages are ambiguous', async () => {
    const bo = { ...ada, user_id: 'user_0197f3b2c4d57a8e9b0c1d2e3f405164', external_id: 'auth0|bo', email: 'b@x.io' }
    const pages = (second: object) => ({
      'GET /people?limit=500': { items: [ada], next_cursor: 'a b' },
      'GET /people?limit=500&cursor=a%20b': { items: [second], next_cursor: null },
      [`POST /people/${bo.user_id}/role`]: bo,
    })
    const found = await runAgainst(pages(bo), ['people', 'role', 'b@x.io', 'admin'])
    assert.equal(found.heard.at(-1)?.line, `POST /people/${bo.user_id}/role`)
    const twice = await runAgainst(pages({ ...bo, email: ada.email }), ['people', 'role', 'ada@example.com', 'admin'])
    assert.match(twice.err, /More than one person/)
    const listed = await runAgainst(pages(bo), ['people', 'list', '--json'])
    assert.deepEqual(JSON.parse(listed.out), { items: [ada, bo], next_cursor: null })
  })

  test('list is a table; --json is the document as it came', async () => {
    const { out } = await runAgainst(list, ['people', 'list'])
    assert.match(out, /local:ada +writer +finance +active/)
    const json = await runAgainst(list, ['people', 'list', '--json'])
    assert.deepEqual(JSON.parse(json.out), list['GET /people?limit=500'])
  })

  for (const [args, exit, said] of [
    [['deactivate', 'ada'], 64, /Add --yes/],
    [['role', 'nobody', 'admin'], 65, /nobody is called "nobody"|people list/],
    [['invite'], 64, /who/],
  ] as const) {
    test(`people ${args.join(' ')} exits ${exit} and changes nothing`, async () => {
      const { code, err, heard } = await runAgainst(list, ['people', ...args])
      assert.equal(code, exit, err)
      assert.match(err, said)
      assert.ok(heard.every(({ line }) => line.startsWith('GET')))
    })
  }
})
