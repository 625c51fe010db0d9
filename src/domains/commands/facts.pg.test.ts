/** Whose commands may use a connector: what the project grants, asked by policy for every one of them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openConnectors, openSecrets } from '#domains/connectors'
import { encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { openTestRoom } from '#test/commands'
import { realSleep } from '#test/connectors'
import { Desk } from '#test/fake-providers'
import { deskCatalog, deskConnector } from '#test/projects/connectors'
import { accepted, TRACE } from '#test/tenant'
import { connectorDefinitions } from './catalog/connector-effects.ts'
import { anyHost, type Catalog, openCatalog } from './catalog/open-catalog.ts'
import { checkConnectorAccess, type ConnectorAccess } from './facts.ts'
import { shippedPolicies } from './catalog/shipped-policies.ts'
import { submitCommand } from './submit.ts'

const open = (title: string) => ({ effect_type: 'connector.desk.open_ticket', payload: { title } })

test('[CON-17] [POL-11] the credential is there, and still only members of the granted role, in the granted workspace, may have it used', async (t) => {
  const desk = new Desk()
  const catalog = deskCatalog().map((each) =>
    each.kind === 'task' ? { ...each, spec: { ...each.spec, policy_checks: ['permission', 'connector_scope'] } } : each,
  )
  let access: ConnectorAccess = {}
  const own = await openTestRoom(
    (world) => ({
      ...world,
      get connectorAccess() {
        return access
      },
    }),
    ({ db, now, newId }) => {
      const world = { db, now, newId, sleep: realSleep, secrets: openSecrets({}) }
      return [...connectorDefinitions(accepted(openConnectors([deskConnector(desk)], world))), ...catalog]
    },
  )
  t.after(() => own.close())
  const slug = own.tenant.workspace.slug
  const { workspace } = own.tenant
  const ask = async (title: string, orgRoles: readonly string[] = []) => {
    const { principal } = own.tenant.people.writer
    const by = { id: `user:${principal.userId}`, kind: 'user' as const, traceId: TRACE }
    const asked = { workspaceId: workspace.id, taskName: 'Help', payload: { steps: [open(title)] } as JsonObject }
    const more = { ingress: 'user_request', requestId: 'req_scope' } as const
    const made = await submitCommand(own.world, { ...by, principal: { ...principal, orgRoles } }, { ...asked, ...more })
    return own.settle(accepted(made).command.command_id)
  }
  const before = desk.seen.length
  assert.equal(await ask('open to all'), 'succeeded')
  access = { desk: { org_roles: ['support'] } }
  assert.deepEqual([await ask('no member'), await ask('a member', ['support'])], ['failed', 'succeeded'])
  access = { desk: { workspaces: ['elsewhere'] } }
  assert.equal(await ask('not here', ['support']), 'failed')
  access = { desk: { workspaces: [slug], org_roles: ['support'] } }
  assert.deepEqual([await ask('here', ['support']), await ask('here, no member')], ['succeeded', 'failed'])
  assert.deepEqual(
    desk.seen.slice(before).map(({ input }) => input['title']),
    ['open to all', 'a member', 'here'],
  )
  // By its id, as people see it and as the row has it.
  for (const name of [encodeId('workspace', workspace.id), workspace.id]) {
    access = { desk: { workspaces: [name] } }
    assert.equal(await ask(`here, by ${name}`), 'succeeded', name)
  }
  const [denied] = await own.rows<{ error: string; scopes: unknown }>(
    `select c.error, e.payload->'input'->'context'->'facts'->'connector_scopes' as scopes
     from concord.commands c join concord.domain_events e on e.command_id = c.command_id and e.event_type = 'policy_evaluated'
     where c.status = 'failed' order by c.created_at limit 1`,
  )
  assert.match(denied?.error ?? '', /No access to desk/)
  assert.deepEqual(denied?.scopes, ['hotel', 'mail', 'ticket'], 'what was known is on record')
  // At the start: a grant that nothing asks for, or that is about nothing, is refused.
  const codeOf = (used: Catalog, grants: ConnectorAccess) => {
    const checked = checkConnectorAccess(used, grants)
    return checked.ok ? 'ok' : `${checked.code} ${checked.path}`
  }
  assert.equal(codeOf(own.catalog, { desk: { org_roles: ['support'] } }), 'ok')
  const refused = 'commands.connector_access.invalid connectorAccess'
  assert.equal(codeOf(own.catalog, { dexk: {} }), `${refused}.dexk`)
  assert.equal(codeOf(own.catalog, { desk: { org_roles: 'support' } as never }), `${refused}.desk.org_roles`)
  const connectors = accepted(
    openConnectors([deskConnector(desk)], { ...own.clock, sleep: realSleep, secrets: openSecrets({}) }),
  )
  const blind = accepted(
    openCatalog([...connectorDefinitions(connectors), ...deskCatalog(), ...shippedPolicies], anyHost),
  )
  assert.equal(codeOf(blind, { desk: { org_roles: ['support'] } }), `${refused}.desk`)
})
