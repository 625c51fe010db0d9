/** An issue on GitHub as the effect of a command: opened once although the answer was lost. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { type Connectors, githubConnector, openConnectors, openSecrets } from '#domains/connectors'
import { errorClasses } from '#kernel/error-classes'
import { openTestRoom, type TestRoom } from '#test/commands'
import { realSleep, testSecrets } from '#test/connectors'
import { type GithubContract, openGithubContract } from '#test/github-contract'
import { accepted } from '#test/tenant'
import { connectorDefinitions } from './catalog/connector-effects.ts'
import { defineCommandType, defineFunction, defineTask } from './catalog/definitions.ts'

const effect_type = 'connector.github.create_github_issue'

describe('an issue as an effect', () => {
  let hub: GithubContract
  let room: TestRoom
  let connectors: Connectors

  before(async () => {
    hub = await openGithubContract('token-github-0123456789')
    const github = githubConnector({
      secret_ref: 'vault://github',
      repositories: ['acme/books'],
      base_url: hub.url,
      reach: { allow_http: true, private_networks: ['127.0.0.1'] },
    })
    room = await openTestRoom(undefined, ({ db, now, newId }) => {
      const secrets = openSecrets(testSecrets({ github: 'token-github-0123456789' }))
      connectors = accepted(openConnectors([github], { db, now, newId, sleep: realSleep, secrets }))
      return [
        ...connectorDefinitions(connectors),
        defineFunction({
          name: 'report',
          plan: ({ title }) => [
            { effect_type, payload: { repository: 'acme/books', title: title ?? '', body: 'Seen.' } },
          ],
        }),
        defineCommandType({
          name: 'report',
          description: 'Reports a fault.',
          payload: z.strictObject({ title: z.string() }),
          side_effects: [effect_type],
          error_classes: errorClasses,
          cancellable_by: ['requester', 'admin'],
          audit: ['command_created', 'policy_evaluated'],
        }),
        defineTask({
          name: 'Report',
          description: 'Reports a fault.',
          command_type: 'report',
          function_name: 'report',
          ingress_types: ['user_request'],
          async_required: true,
          connector_requirements: ['github'],
          policy_checks: ['permission'],
        }),
      ]
    })
  })
  after(async () => {
    await connectors.close()
    await room.close()
    await hub.close()
  })

  test('an issue whose answer was lost is found by its marker, and there is one', async () => {
    hub.mode = 'cut_after'
    const id = await room.submit({ title: 'Broken' }, { taskName: 'Report' })
    assert.equal(await room.settle(id), 'succeeded')
    assert.equal(hub.issues.length, 1)
    const rows = await room.rows<{ operation: string; status: string }>(
      `select operation, status from concord.connector_invocations where command_id = $1 order by connector_invocation_id`,
      [id],
    )
    assert.deepEqual(rows, [
      { operation: 'create_github_issue', status: 'failed' },
      { operation: 'find_issue', status: 'succeeded' },
    ])
  })
})
