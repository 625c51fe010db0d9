/** Loads the project of a folder: its catalog and connectors, from `concord.config.ts` (or .js, .mjs) and the YAML files that it names. */
import { execFile } from 'node:child_process'
import { glob, readFile, stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import process from 'node:process'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import {
  type AgentDefinition,
  type AgentRuntime,
  loadAgentWorkflow,
  loadSwarm,
  type ModelDefinition,
  type SwarmDefinition,
} from '#domains/agents'
import type { ApprovalType } from '#domains/approvals'
import type { ArtifactType } from '#domains/artifacts'
import {
  type CatalogEntry,
  type ConnectorAccess,
  type Definition,
  expandCatalog,
  loadDefinitions,
  mergeDefinitions,
  type PlacedDefinition,
  type WebhookSource,
} from '#domains/commands'
import type { ConnectorDefinition, SecretSources } from '#domains/connectors'
import type { Operator } from '#domains/flow'
import type { MemoryOptions } from '#domains/memory'
import { accept, type Decision, quote, type Refusal, refuse } from '#kernel/refusal'
import type { EnvironmentTerms, QueueLimits } from './queue-limits.ts'

/** For a plan that a person writes as YAML. */
export { readYaml } from '#domains/commands'

export type Project = {
  /** Commands, and definitions of the layer below. */
  readonly catalog: readonly CatalogEntry[]
  /** Patterns of YAML files with more definitions, relative to the folder of this file: `'./concord/*.yaml'`. */
  readonly definitions?: string | readonly string[]
  /** In addition to the built-in types. A type that a command type names replaces the terms of that command type. */
  readonly approvalTypes?: readonly ApprovalType[]
  readonly webhooks?: readonly WebhookSource[]
  /** Memory schemas, an embedder, another store, and further stores that can forget a subject. */
  readonly memory?: Pick<MemoryOptions, 'schemas' | 'embedder' | 'store' | 'forgettables'>
  /** In addition to the built-in types. A type of the same name replaces the built-in one. */
  readonly artifactTypes?: readonly ArtifactType[]
  /** Limits of the queues. They override the defaults. */
  readonly queues?: QueueLimits
  /** The differences of each environment, by its name in `CONCORD_ENVIRONMENT`. Queues have the same names in all of them. */
  readonly environments?: Readonly<Record<string, EnvironmentTerms>>
  /** Connections to other systems. Each operation of a connector is an effect that the catalog may name. */
  readonly connectors?: readonly ConnectorDefinition[]
  /** The models that agents may ask: `modelConnector({ … })`. Each is a connector too. */
  readonly models?: readonly ModelDefinition[]
  /** Connectors with restricted access, by name: to org roles, to workspaces, or both. Their tasks need the policy `connector_scope`. */
  readonly connectorAccess?: ConnectorAccess
  /**
   * The places inside the organisation: hosts and mail domains (`example.com`), their sub-domains (`*.example.com`), addresses, names
   * (`slack:finance`), all names of a scheme (`slack:*`). Every other destination but `internal` is outside.
   */
  readonly inside?: readonly string[]
  /** Agents: each is a command whose effect is a run. */
  readonly agents?: readonly AgentDefinition[]
  /** Swarms: each is a command whose effect is a swarm of agents. */
  readonly swarms?: readonly SwarmDefinition[]
  /** What works out the answers of agents, in addition to `scripted`. */
  readonly agentRuntimes?: readonly AgentRuntime[]
  /** Operators of flow jobs, in addition to `http_poll` and `command`. */
  readonly operators?: readonly Operator[]
  /** Sources for `vault://`, `secret://` and `keyring://` references. `env://` and `file://` are built in. */
  readonly secrets?: SecretSources
}

/** Types the default export of `concord.config.ts`. */
export function defineProject(project: Project): Project {
  return project
}

export const PROJECT_FILE = 'concord.config.ts'
const NAMES = [PROJECT_FILE, 'concord.config.mjs', 'concord.config.js'] as const

export async function findProjectFile(folder: string): Promise<string | undefined> {
  for (const name of NAMES) {
    const file = join(folder, name)
    if ((await stat(file).catch(() => undefined))?.isFile()) return file
  }
  return undefined
}

export async function loadProject(folder: string): Promise<Decision<LoadedProject & { readonly file: string | null }>> {
  const file = await findProjectFile(folder)
  return file === undefined ? accept({ catalog: [], file: null }) : readProject(file)
}

async function readProject(file: string): Promise<Decision<LoadedProject & { readonly file: string }>> {
  const no = (reason: string) =>
    refuse('app.project.invalid', `${file}: ${reason}`, {
      path: file,
      hint: 'Write: export default defineProject({ catalog: [ … ] }).',
    })
  try {
    const loaded = (await import(pathToFileURL(file).href)) as { default?: Partial<Project> }
    const project = loaded.default
    if (project === undefined) return no('The file has no default export.')
    if (!Array.isArray(project.catalog)) return no('The default export has no catalog.')
    for (const list of ['connectors', 'models', 'agents', 'swarms'] as const)
      if (!Array.isArray(project[list] ?? [])) return no(`\`${list}\` is not a list.`)
    for (const [list, field, define] of definers) {
      const at = (project[list] ?? []).findIndex((entry: object) => !Object.hasOwn(Object(entry), field))
      if (at !== -1) return refuseEntry(file, `${list}.${at}`, define)
    }
    return await withFiles({ ...project, ...expandProject(project as Project), file })
  } catch (error) {
    if (!(error instanceof Error)) return no(String(error))
    const place = await findPlace(error, file)
    return refuse('app.project.invalid', `${place ?? file}: ${error.message}`, { path: place ?? file })
  }
}

/** Lists of the project, a field that each entry has, and the function that defines it. */
const definers = [
  ['agents', 'goalOf', 'defineAgent'],
  ['swarms', 'swarm', 'defineSwarm'],
] as const

function refuseEntry(file: string, path: string, define: string): Refusal {
  return refuse('app.project.invalid', `${file}: \`${path}\` is not what ${define} returns.`, {
    path,
    hint: `Write: ${define}('Name', { … }).`,
  })
}

/** The line of the project that failed: `/home/you/refunds/refund.ts:3`. */
async function findPlace(error: Error, file: string): Promise<string | undefined> {
  const named = placeIn(error.stack ?? '')
  if (named !== undefined || !(error instanceof SyntaxError)) return named
  // Node names the line of a syntax error only when the error ends a process. Nothing of the project runs before that.
  return promisify(execFile)(process.execPath, [...process.execArgv, file]).then(
    () => undefined,
    ({ stderr }: { stderr?: string }) => placeIn(stderr ?? ''),
  )
}

/** The first line of a stack outside Node, Concord and other packages. */
function placeIn(stack: string): string | undefined {
  const own = new URL('../', import.meta.url).href
  for (const [, at = '', line = ''] of stack.matchAll(/(?<=^|[\s(])((?:file:\/\/)?\/[^\s()]+?):(\d+)(?=[:)\s]|$)/gm)) {
    const url = at.startsWith('file:') ? at : pathToFileURL(at).href
    if (!url.startsWith(own) && !url.includes('/node_modules/')) return `${fileURLToPath(url)}:${line}`
  }
  return undefined
}

/** A project whose commands are replaced by their definitions. */
export type LoadedProject = Omit<Project, 'catalog'> & { readonly catalog: readonly Definition[] }

/** Commands bring their definitions, and the connectors of their steps. */
export function expandProject({ catalog, connectors = [], ...project }: Project): LoadedProject {
  const expanded = expandCatalog([...catalog, ...(project.agents ?? []), ...(project.swarms ?? [])])
  const ofModels = (project.models ?? []).map(({ connector }) => connector)
  const all = new Set([...connectors, ...expanded.connectors, ...ofModels])
  return { ...project, catalog: expanded.catalog, connectors: [...all] }
}

const SECRET_BYTES_MIN = 16

/** Refuses a webhook that anybody could sign. A variable that is not set often becomes an empty secret. */
export function checkWebhooks<P extends Project & { readonly file?: string | null | undefined }>(
  project: P,
): Decision<P> {
  const { webhooks = [], file } = project
  // A project in JavaScript may leave it out, or give a text.
  const short = webhooks.find(
    ({ secret }: { secret?: Partial<Uint8Array> }) => (secret?.byteLength ?? 0) < SECRET_BYTES_MIN,
  )
  if (!short) return accept(project)
  const where = file ? `${file}: ` : ''
  const reason = `${where}The secret of the webhook ${quote(short.name)} has fewer than ${SECRET_BYTES_MIN} bytes.`
  return refuse('app.project.invalid', reason, {
    path: `webhooks.${short.name}.secret`,
    hint: `Give it at least ${SECRET_BYTES_MIN} random bytes as a Buffer. Is the variable of the secret set?`,
  })
}

/** Adds the definitions of the YAML files. Reads each file once, in the order of the patterns and of the paths. Skips folders. */
async function withFiles<P extends LoadedProject & { readonly file: string }>(project: P): Promise<Decision<P>> {
  const { definitions = [], catalog, connectors = [], approvalTypes = [], file } = project
  const files: PlacedDefinition[] = []
  const read = new Set<string>()
  const agents = [...(project.agents ?? [])]
  const swarms = [...(project.swarms ?? [])]
  for (const pattern of typeof definitions === 'string' ? [definitions] : definitions) {
    const found: string[] = []
    for await (const name of glob(pattern, { cwd: dirname(file) }))
      if ((await stat(resolve(dirname(file), name))).isFile()) found.push(name)
    if (found.length === 0)
      return refuse('app.project.invalid', `${file}: No file matches the pattern '${pattern}'.`, {
        path: 'definitions',
        hint: 'Write the pattern relative to the folder of this file, or remove it.',
      })
    for (const name of found.toSorted()) {
      const path = resolve(dirname(file), name)
      if (read.has(path)) continue
      read.add(path)
      const bytes = await readFile(path)
      const agent = loadAgentWorkflow(name, bytes)
      if (!agent.ok) return agent
      const swarm = loadSwarm(name, bytes)
      if (!swarm.ok) return swarm
      if (agent.value) agents.push(agent.value)
      if (swarm.value) swarms.push(swarm.value)
      const command = agent.value ?? swarm.value
      if (command) {
        files.push(...command.definitions.map((catalog) => ({ catalog, place: name })))
        continue
      }
      const loaded = loadDefinitions(name, bytes)
      if (!loaded.ok) return loaded
      files.push(...loaded.value)
    }
  }
  const merged = mergeDefinitions({ catalog, connectors, approvalTypes, place: basename(file) }, files)
  return merged.ok ? accept({ ...project, ...merged.value, agents, swarms }) : merged
}
