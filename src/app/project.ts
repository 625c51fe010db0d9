/** Loads the project of a folder: its catalog and connectors, from `concord.config.ts` (or .js, .mjs) and the YAML files that it names. */
import { glob, readFile, stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { ApprovalType } from '#domains/approvals'
import type { ArtifactType } from '#domains/artifacts'
import {
  type ConnectorAccess,
  type Definition,
  loadDefinitions,
  mergeDefinitions,
  type PlacedDefinition,
  type WebhookSource,
} from '#domains/commands'
import type { ConnectorDefinition, SecretSources } from '#domains/connectors'
import type { MemoryOptions } from '#domains/memory'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { EnvironmentTerms, QueueLimits } from './queue-limits.ts'

export type Project = {
  readonly catalog: readonly Definition[]
  /** Patterns of YAML files with more definitions, from the folder of this file: `'./concord/*.yaml'`. */
  readonly definitions?: string | readonly string[]
  /** Beside the built-in ones; one that a command type names takes the place of its terms. */
  readonly approvalTypes?: readonly ApprovalType[]
  readonly webhooks?: readonly WebhookSource[]
  /** Memory schemas, an embedder, another store, and what else knows a subject. */
  readonly memory?: Pick<MemoryOptions, 'schemas' | 'embedder' | 'store' | 'forgettables'>
  /** Beside the built-in ones; one of the same name takes its place. */
  readonly artifactTypes?: readonly ArtifactType[]
  /** Limits of the queues, over their defaults. */
  readonly queues?: QueueLimits
  /** What is different in each environment, by its name in `CONCORD_ENVIRONMENT`; names of queues are the same in all. */
  readonly environments?: Readonly<Record<string, EnvironmentTerms>>
  /** Doors to other systems; each of their operations is an effect that the catalog may name. */
  readonly connectors?: readonly ConnectorDefinition[]
  /** Connectors that are not for everybody, by name: for members of org roles, in workspaces, or both. Their tasks ask `connector_scope`. */
  readonly connectorAccess?: ConnectorAccess
  /** Where `vault://` and `keyring://` references lead; `env://` and `file://` are there already. */
  readonly secrets?: SecretSources
}

/** Gives the types to `export default defineProject({ … })`. */
export function defineProject(project: Project): Project {
  return project
}

const NAMES = ['concord.config.ts', 'concord.config.mjs', 'concord.config.js'] as const

export async function loadProject(folder: string): Promise<Decision<Project & { readonly file: string | null }>> {
  for (const name of NAMES) {
    const file = join(folder, name)
    if (!(await stat(file).catch(() => undefined))?.isFile()) continue
    return readProject(file)
  }
  return accept({ catalog: [], file: null })
}

async function readProject(file: string): Promise<Decision<Project & { readonly file: string }>> {
  const no = (reason: string) =>
    refuse('app.project.invalid', `${file}: ${reason}`, {
      path: file,
      hint: 'export default defineProject({ catalog: [ … ] })',
    })
  try {
    const loaded = (await import(pathToFileURL(file).href)) as { default?: Partial<Project> }
    const project = loaded.default
    if (project === undefined) return no('has no default export')
    if (!Array.isArray(project.catalog)) return no('its default export has no catalog')
    if (!Array.isArray(project.connectors ?? [])) return no('its connectors are not a list')
    return await withFiles({ ...project, catalog: project.catalog, file })
  } catch (error) {
    return no(error instanceof Error ? error.message : String(error))
  }
}

type LoadedProject = Project & { readonly file: string }

/** Adds what the YAML files define; each is read once, in the order of the patterns and of their paths. Folders are skipped. */
async function withFiles(project: LoadedProject): Promise<Decision<LoadedProject>> {
  const { definitions = [], catalog, connectors = [], approvalTypes = [], file } = project
  const files: PlacedDefinition[] = []
  const read = new Set<string>()
  for (const pattern of typeof definitions === 'string' ? [definitions] : definitions) {
    const found: string[] = []
    for await (const name of glob(pattern, { cwd: dirname(file) }))
      if ((await stat(resolve(dirname(file), name))).isFile()) found.push(name)
    if (found.length === 0)
      return refuse('app.project.invalid', `${file}: no file matches the definitions '${pattern}'`, {
        path: 'definitions',
        hint: 'Write the pattern from the folder of this file, or take it out.',
      })
    for (const name of found.toSorted()) {
      const path = resolve(dirname(file), name)
      if (read.has(path)) continue
      read.add(path)
      const loaded = loadDefinitions(name, await readFile(path))
      if (!loaded.ok) return loaded
      files.push(...loaded.value)
    }
  }
  const merged = mergeDefinitions({ catalog, connectors, approvalTypes, place: basename(file) }, files)
  return merged.ok ? accept({ ...project, ...merged.value }) : merged
}
