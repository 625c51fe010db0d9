/** Reads the plan of a mission from a file: JSON, YAML (`.yaml`, `.yml`), or lines (`.ndjson`) for a long one. Reads its settings from a flag. */
import { extname } from 'node:path'
import { defaultJsonLimits, type JsonObject } from '#kernel/json-value'
import { accept, type Decision } from '#kernel/refusal'
import { parseNamed, readText } from './json-source.ts'
import type { Terminal } from './terminal.ts'

/** As many bytes as the server takes in lines. */
const LINES_MAX = { ...defaultJsonLimits, bytesMax: 8 * 1_048_576 }

/** `lines`: the tasks of the plan, one a line. The server reads them. */
type PlanFile = { readonly plan: JsonObject; readonly lines?: string }

export async function readPlanFile(terminal: Terminal, file: string): Promise<Decision<PlanFile>> {
  const isLines = extname(file) === '.ndjson'
  const read = await readText(terminal, file, isLines ? LINES_MAX : defaultJsonLimits)
  if (!read.ok) return read
  const { name, text } = read.value
  if (isLines) {
    const end = text.includes('\n') ? text.indexOf('\n') : text.length
    const head = parseNamed(name, text.slice(0, end))
    return head.ok ? accept({ plan: head.value, lines: text.slice(end + 1) }) : head
  }
  if (['.yaml', '.yml'].includes(extname(file))) {
    const { readYaml } = await import('#app/project')
    const yaml = readYaml(name, new TextEncoder().encode(text))
    return yaml.ok ? accept({ plan: yaml.value.value }) : yaml
  }
  const plan = parseNamed(name, text)
  return plan.ok ? accept({ plan: plan.value }) : plan
}

/** The settings of a mission. */
export const readConfigFlag = (config: string | undefined): Decision<JsonObject | undefined> =>
  config === undefined ? accept(undefined) : parseNamed('--config', config)

/** A plan as the body of a request: an object, or a text of lines. */
export const bodyOf = ({ plan, lines }: PlanFile, body: object = plan): object | string =>
  lines === undefined ? body : `${JSON.stringify(body)}\n${lines}`

/** The body of a request that has a plan among its fields. */
export const withPlan = (fields: Readonly<Record<string, unknown>>, file: PlanFile): object | string =>
  bodyOf(file, { ...fields, plan: file.plan })
