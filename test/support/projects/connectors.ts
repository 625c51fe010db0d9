/**
 * A project of connectors and artifacts. A server of a journey gets the parts that its environment names; a test in the process
 * takes the help desk, the partner company or the notes.
 */
import { z } from 'zod'
import {
  type ConnectorDefinition,
  type Definition,
  defineArtifactType,
  defineConnector,
  defineEffect,
  defineProject,
  EffectFailure,
  httpConnector,
  mcpConnector,
  notificationConnector,
  type Project,
} from '../../../src/index.ts'
import { builtInArtifactTypes, openArtifactTypes, type Source } from '../../../src/domains/artifacts/index.ts'
import { publishArtifactDefinitions, shippedPolicies } from '../../../src/domains/commands/index.ts'
import type { JsonObject } from '../../../src/kernel/json-value.ts'
import type { Desk } from '../fake-providers.ts'
import { accepted } from '../tenant.ts'
import { defineWork } from './define-work.ts'
import { failingEffects } from './failing-effects.ts'

const reach = { allow_http: true, private_networks: ['127.0.0.1'] }

export function deskConnector(desk: Desk): ConnectorDefinition {
  const ids = { input: z.strictObject({ id: z.string() }), output: z.looseObject({}) }
  return defineConnector({
    connector_type: 'desk',
    name: 'desk',
    description: 'A help desk.',
    operations: [
      {
        name: 'open_ticket',
        description: 'Opens a ticket.',
        input: z.strictObject({ title: z.string() }),
        output: z.strictObject({ id: z.string() }),
        side_effect_class: 'queryable',
        idempotency: { required: true, key_template: 'ticket:{title}' },
        read_back: { operation: 'find_ticket', input: { key: '{key}' }, found: 'ticket', result: 'ticket' },
        compensation: { operation: 'close_ticket', input: { id: '{output.id}' } },
        backoff_seconds: [0],
      },
      {
        name: 'find_ticket',
        description: 'Looks a ticket up.',
        input: z.strictObject({ key: z.string() }),
        output: z.strictObject({ ticket: z.nullable(z.strictObject({ id: z.string(), open: z.boolean() })) }),
        side_effect_class: 'none',
      },
      { name: 'close_ticket', description: 'Closes a ticket.', ...ids, side_effect_class: 'keyed' },
      {
        name: 'delete_ticket',
        description: 'Deletes a ticket.',
        ...ids,
        side_effect_class: 'opaque',
        approval_required: true,
      },
    ],
    open: () => ({
      name: 'desk',
      connector_type: 'desk',
      capabilities: () => ['open_ticket', 'find_ticket', 'close_ticket', 'delete_ticket'],
      call: (call) => desk.call(call),
    }),
  })
}

export function deskCatalog(): readonly Definition[] {
  return defineWork({
    name: 'Help',
    payload: z.strictObject({
      steps: z.array(z.strictObject({ effect_type: z.string(), payload: z.looseObject({}) })),
    }),
    plan: ({ steps }) => steps as unknown as readonly { effect_type: string; payload: JsonObject }[],
    effects: ['connector.desk.open_ticket', 'connector.desk.delete_ticket'],
    type: { cancellation_mode: 'compensate_then_stop', approval: { approver: 'role:approver' } },
    task: { connector_requirements: ['desk'] },
  })
}

/** A tool of agents that sends a note, and perhaps a customer, to the destination in its payload. */
function agentTool(name: string, effect: string, input: (payload: JsonObject) => JsonObject): readonly Definition[] {
  return defineWork({
    name,
    payload: z.strictObject({ note: z.string(), customer: z.string().optional(), destination: z.string() }),
    plan: (payload) => [{ effect_type: effect, payload: input(payload) }],
    effects: [effect],
    type: { fields: { note: 'internal', customer: 'pii', destination: 'public' } },
    task: {
      ingress_types: ['agent_action'],
      connector_requirements: [effect.split('.')[1] ?? ''],
      policy_checks: ['permission', 'data_safety'],
      risk_level: 'medium',
    },
  })
}

export const mailLogin = { user: 'concord', pass: 'canary-mail-0123456789' }

/** Tools that send notes to another company: by a call, a sync, a webhook and a mail, all on loopback. */
export function partnerProject(apiUrl: string, mailPort: number): Project {
  const operation = (name: string) => ({
    name,
    description: `Does ${name}.`,
    method: 'POST' as const,
    path: `/${name}`,
    input: z.strictObject({ note: z.string(), customer: z.string().optional() }),
    output: z.looseObject({ id: z.string() }),
    side_effect_class: 'keyed' as const,
    input_classes: { note: 'internal', customer: 'pii' } as const,
  })
  const record = ({ note = null, customer }: JsonObject) => ({ note, ...(customer === undefined ? {} : { customer }) })
  const message = ({ note = null, customer = null, destination = null }: JsonObject) => ({
    recipient: destination,
    subject: 'News',
    text: customer ?? note,
  })
  const secrets: Readonly<Record<string, string>> = {
    notify: '0123456789abcdef0123456789abcdef',
    mail: `${mailLogin.user}:${mailLogin.pass}`,
  }
  return {
    connectors: [
      httpConnector({
        name: 'partner',
        description: 'Another company, which may not get personal data.',
        base_url: apiUrl,
        reach,
        data_class_max: 'pii',
        output_trust: 'trusted',
        operations: [operation('tell'), operation('sync')],
      }),
      notificationConnector({
        webhook: { url: `${apiUrl}/notify`, secret_ref: 'vault://notify', reach },
        email: {
          host: '127.0.0.1',
          port: mailPort,
          from: 'concord@example.com',
          secret_ref: 'vault://mail',
          allow_plain: true,
          private_networks: ['127.0.0.1'],
        },
      }),
    ],
    catalog: [
      ...agentTool('call_partner', 'connector.partner.tell', record),
      ...agentTool('sync_partner', 'connector.partner.sync', record),
      ...agentTool('notify_partner', 'connector.notification.send_webhook', message),
      ...agentTool('send_notification', 'connector.notification.send_email', message),
    ],
    artifactTypes: [
      defineArtifactType({ name: 'customer_list', description: 'Who buys.', data_class: 'pii' }),
      defineArtifactType({ name: 'price_list', description: 'What it costs.', data_class: 'internal' }),
    ],
    inside: ['notes.example'],
    secrets: { vault: (place) => Promise.resolve(secrets[place]) },
  }
}

export const testArtifactTypes = accepted(
  openArtifactTypes([
    ...builtInArtifactTypes,
    defineArtifactType({
      name: 'invoice',
      version: '2',
      description: 'An invoice.',
      schema: z.strictObject({ total: z.number() }),
      data_class: 'pii',
      retention_days: 30,
      compatible_with: ['1'],
    }),
    defineArtifactType({
      name: 'open_data',
      description: 'For everybody.',
      data_class: 'public',
      external_sharing: 'allow',
    }),
    defineArtifactType({ name: 'diary', description: 'For one.', visibility: 'private' }),
  ]),
)

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')

function contentOf({ text, size }: JsonObject, attempt: number): string {
  const whole = textOf(text).replaceAll('{attempt}', String(attempt))
  return typeof size === 'number' ? whole.padEnd(size, whole) : whole
}

/** A task that writes an artifact as its payload says, and one effect that fails after it. */
export function artifactDefinitions(): readonly Definition[] {
  return [
    ...shippedPolicies,
    ...publishArtifactDefinitions,
    defineEffect({
      effect_type: 'artifact.note',
      class: 'keyed',
      async do({ payload: asked, artifacts, attempt }) {
        const { artifact_id, checksum } = await artifacts.write({
          type: textOf(asked['type']),
          title: 'A note',
          content: { text: contentOf(asked, attempt) },
          // The payload's shape was checked when it was submitted.
          sources: asked['sources'] as unknown as Source[],
          ...(asked['supersedes'] ? { supersedes: textOf(asked['supersedes']) } : {}),
        })
        if (asked['fails'] === true) throw new EffectFailure('validation_error', 'it fails after writing')
        return { artifact_id, checksum }
      },
      undo: {
        name: 'artifact.discard_note',
        async do({ undone, artifacts, emit }) {
          await artifacts.withdraw(textOf((undone.result as JsonObject)['artifact_id']))
          emit('artifact.discard_note')
        },
      },
    }),
    ...failingEffects,
    ...defineWork({
      name: 'Note',
      payload: z.strictObject({
        type: z.string().default('report'),
        text: z.string(),
        /** Repeats the text up to this length. */
        size: z.number().optional(),
        sources: z.array(z.object({ kind: z.string(), id: z.string() })).default([]),
        supersedes: z.string().optional(),
        fails: z.boolean().default(false),
        /** The command fails after the note, or after the publication if there is one. */
        then_fails: z.boolean().default(false),
        /** One more effect after the note. */
        after: z.string().optional(),
        publishes: z.object({ artifact_id: z.string(), checksum: z.string() }).optional(),
      }),
      plan: ({ publishes, then_fails, after, ...given }) => [
        { effect_type: 'artifact.note', payload: given },
        ...(publishes
          ? [{ effect_type: 'artifact.publish', payload: { ...(publishes as JsonObject), destination: 'internal' } }]
          : []),
        ...(typeof after === 'string' ? [{ effect_type: after, payload: {} }] : []),
        ...(then_fails === true ? [{ effect_type: 'work.fail', payload: {} }] : []),
      ],
      effects: ['artifact.note', 'artifact.publish', 'outside.large', 'outside.result', 'work.fail'],
      type: {
        compensation: { supported: true },
        cancellation_mode: 'compensate_then_stop',
        audit: ['command_created'],
      },
      task: { required_inputs: ['text'], artifact_output_possible: true },
    }),
  ]
}

const rows = Array.from({ length: 2_000 }, (_, n) => `${n},${n * n}`)
export const exportedTable = `n,square\n${rows.join('\n')}\n`

/** A task that writes a table and a summary of it. */
const exportProject: Project = {
  artifactTypes: [
    defineArtifactType({
      name: 'summary',
      description: 'What a table says.',
      schema: z.strictObject({ rows: z.int() }),
      lineage: { sources_min: 1, kinds: ['artifact'] },
    }),
  ],
  catalog: [
    defineEffect({
      effect_type: 'artifact.export',
      class: 'keyed',
      async do({ artifacts }) {
        const made = await artifacts.write({
          type: 'csv_export',
          title: 'Squares',
          file_name: 'squares.csv',
          content: { text: exportedTable },
        })
        const summary = await artifacts.write({
          type: 'summary',
          content: { json: { rows: rows.length } },
          sources: [{ kind: 'artifact', id: made.artifact_id }],
        })
        return { table: made.artifact_id, summary: summary.artifact_id }
      },
    }),
    ...defineWork({
      name: 'Export',
      payload: z.strictObject({}),
      plan: () => [{ effect_type: 'artifact.export', payload: {} }],
      effects: ['artifact.export'],
      task: { artifact_output_possible: true },
    }),
  ],
}

/** One connector for each secret, to a provider that sends every secret back. */
function canaryProject(url: string, count: number, folder: string): Project {
  const modes = ['api_key', 'bearer', 'basic', 'hmac', 'oauth_client_credentials'] as const
  const names = Array.from({ length: count }, (_, at) => `canary_${at}`)
  return {
    connectors: names.map((name, at) =>
      httpConnector({
        name,
        description: 'Sends back what it gets.',
        base_url: url,
        auth: {
          mode: modes[at % modes.length] ?? 'bearer',
          secret_ref: at % 2 === 0 ? `env://CANARY_${at}` : `file://${folder}/${at}`,
          token_url: `${url}/token`,
          client_id: 'concord',
        },
        reach,
        operations: [
          {
            name: 'tell',
            description: 'Tells.',
            method: 'POST',
            path: '/tell',
            query: ['as'],
            input: z.strictObject({ as: z.string(), note: z.string().optional() }),
            output: z.looseObject({ id: z.string() }),
            side_effect_class: 'none',
            attempts_max: 1,
            timeout_ms: 5_000,
          },
        ],
      }),
    ),
    catalog: defineWork({
      name: 'Tell',
      payload: z.strictObject({
        canary: z.int(),
        as: z.string(),
        note: z.string().optional(),
        pin: z.string().optional(),
      }),
      plan: ({ canary, as, note }) => [
        {
          effect_type: `connector.canary_${Number(canary)}.tell`,
          payload: { as: as ?? 'echo', ...(note === undefined ? {} : { note }) },
        },
      ],
      effects: names.map((name) => `connector.${name}.tell`),
      type: { fields: { pin: 'secret' } },
      task: { connector_requirements: names },
    }),
  }
}

/** Two MCP servers: one that writes lines and can misbehave, and the reference server. */
function mcpProject(folder: string): Project {
  const everything = '../../../node_modules/@modelcontextprotocol/server-everything/dist/index.js'
  const node = (file: string, ...args: readonly string[]) => ({
    stdio: { command: process.execPath, args: [new URL(file, import.meta.url).pathname, ...args] },
  })
  return {
    connectors: [
      mcpConnector({
        name: 'lines',
        description: 'Writes lines.',
        server: node('../mcp-server.ts', `${folder}/script.json`, `${folder}/writes.jsonl`),
        tools: { write_line: { tool: 'write-line' } },
      }),
      mcpConnector({
        name: 'everything',
        description: 'The reference server.',
        server: node(everything),
        tools: { echo: { side_effect_class: 'none' } },
      }),
    ],
    catalog: defineWork({
      name: 'Say',
      payload: z.strictObject({ to: z.enum(['everything', 'lines']), text: z.string() }),
      plan: ({ to, text }) =>
        to === 'everything'
          ? [{ effect_type: 'connector.everything.echo', payload: { message: text ?? '' } }]
          : [{ effect_type: 'connector.lines.write_line', payload: { line: text ?? '' } }],
      result: ([first]) => first,
      effects: ['connector.everything.echo', 'connector.lines.write_line'],
      task: { connector_requirements: ['everything', 'lines'] },
    }),
  }
}

const { MCP_FOLDER, CANARY_API, CANARY_COUNT, CANARY_FOLDER } = process.env
const parts: readonly Project[] = [
  exportProject,
  ...(MCP_FOLDER === undefined ? [] : [mcpProject(MCP_FOLDER)]),
  ...(CANARY_API === undefined ? [] : [canaryProject(CANARY_API, Number(CANARY_COUNT), CANARY_FOLDER ?? '')]),
]

export default defineProject({
  connectors: parts.flatMap(({ connectors = [] }) => connectors),
  artifactTypes: parts.flatMap(({ artifactTypes = [] }) => artifactTypes),
  catalog: parts.flatMap(({ catalog }) => catalog ?? []),
})
