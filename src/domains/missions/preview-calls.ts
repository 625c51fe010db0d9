/** Previews of the commands that a plan will submit: calls with the same payload once, and what comes from results with examples. Nothing is recorded. */
import { type CommandPreview, examplesOf, previewCommand, type SubmitCommand } from '#domains/commands'
import type { Actor } from '#kernel/actor'
import { canonicalJson } from '#kernel/canonical-json'
import { KernelFault } from '#kernel/errors'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/json-value'
import type { Db } from '#store'
import type { MissionDeps } from './deps.ts'
import { referencesIn } from './references.ts'

export type AskedPreview = Pick<SubmitCommand, 'workspaceId' | 'requestId' | 'ingress'>

/** One answer for each question: the previews of a plan ask for the same rows. */
export function rememberReads(db: Db): Db {
  const answers = new Map<string, Promise<unknown[]>>()
  const run: Db['run'] = <Row>(asked: Parameters<typeof db.run<Row>>[0], values: readonly unknown[] = []) => {
    const key = `${asked.name} ${JSON.stringify(values)}`
    const answer = answers.get(key) ?? db.run(asked, values)
    answers.set(key, answer)
    return answer as Promise<Row[]>
  }
  return { ...db, run }
}

type Group = { readonly name: string; readonly payload: JsonObject; readonly tasks: string[] }
export type Previewed = Group & { readonly previews: readonly CommandPreview[]; readonly fault: string | null }

/** Different payloads that are previewed at most: each takes about a millisecond. */
export const GROUPS_MAX = 1_000

type Call = Pick<Group, 'name' | 'payload'> & { readonly task: string }

/** Calls of one task of the catalog with the same payload need the same. */
export function groupCalls(calls: readonly Call[]): readonly Group[] {
  return [...Map.groupBy(calls, ({ name, payload }) => canonicalJson([name, payload])).values()].flatMap((same) =>
    same[0] ? [{ name: same[0].name, payload: same[0].payload, tasks: same.map(({ task }) => task) }] : [],
  )
}

export async function previewGroups(
  commands: MissionDeps['commands'],
  by: Actor,
  asked: AskedPreview,
  groups: readonly Group[],
): Promise<readonly Previewed[]> {
  const found: Previewed[] = []
  for (const group of groups) {
    const task = commands.catalog.tasks.get(group.name)
    if (!task) continue
    const isOpen = referencesIn(group.payload).length > 0
    const payloads = isOpen
      ? examplesOf(task).map((example) => fillIn(group.payload, example) as JsonObject)
      : [group.payload]
    const previews: CommandPreview[] = []
    let fault: string | null = null
    for (const payload of new Map(payloads.map((each) => [canonicalJson(each), each])).values()) {
      const preview = await previewCommand(commands, by, { ...asked, taskName: group.name, payload }).catch(noFact)
      if (preview?.ok) previews.push(preview.value)
      else fault = preview?.reason ?? 'A fact of the project cannot be read.'
    }
    found.push({ ...group, previews, fault: previews.length === 0 ? fault : null })
  }
  return found
}

/** A fact of the project that cannot be loaded now. The driver of a command would try again. */
function noFact(error: unknown): undefined {
  if (!(error instanceof KernelFault)) throw error
}

/** The payload with the value of the example in place of each reference. */
function fillIn(value: JsonValue, example: JsonValue | undefined): JsonValue | undefined {
  if (Array.isArray(value))
    return value.flatMap(
      (each: JsonValue, index) => fillIn(each, Array.isArray(example) ? example[index] : undefined) ?? [],
    )
  if (typeof value !== 'object' || value === null || !isJsonObject(value)) return value
  if (Object.hasOwn(value, '$from')) return example
  const fields = isJsonObject(example ?? null) ? (example as JsonObject) : {}
  const filled = Object.entries(value).map(([key, each]) => [key, fillIn(each, fields[key])] as const)
  return Object.fromEntries(filled.filter(([, each]) => each !== undefined)) as JsonObject
}
