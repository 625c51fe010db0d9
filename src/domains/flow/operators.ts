/** The operators that every installation has: they poll an address, transform tables, and submit governed commands. */
import { z } from 'zod'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import { isJsonObject } from '#kernel/json-value'
import { defineOperator, type Operator, type Operators } from './operator.ts'

export const COMMAND_OPERATOR = 'command'
const ROWS_MAX = 10_000

type Fetch = (
  url: string,
  init: { readonly signal: AbortSignal; readonly headers: Record<string, string> },
) => Promise<Response>

/** Reads a JSON list from an address and appends it, in the partition of each row's `partition_by` field, cut to `partition_chars`. */
const httpPoll = (fetch: Fetch): Operator =>
  defineOperator({
    name: 'http_poll',
    config: z.strictObject({
      url: z.url(),
      /** The field with the rows; without it the answer is the list. */
      rows: z.string().optional(),
      /** The field whose greatest value is remembered and sent as the parameter of the same name. */
      cursor: z.string().optional(),
      partition_by: z.string(),
      partition_chars: z.int().min(1).max(200).default(10),
    }),
    async do({ config, state, signal, row, data, job }) {
      const url = new URL(config.url)
      const last = isJsonObject(state['default'] ?? null) ? (state['default'] as JsonObject)['cursor'] : undefined
      if (config.cursor !== undefined && last !== undefined && last !== null)
        url.searchParams.set(config.cursor, textOf(last))
      const answer = await fetch(String(url), { signal, headers: { accept: 'application/json' } })
      if (!answer.ok) throw new Error(`${url.origin} answered ${answer.status}.`)
      const body = (await answer.json()) as JsonValue
      const list = config.rows === undefined ? body : isJsonObject(body) ? body[config.rows] : undefined
      if (!Array.isArray(list)) throw new Error(`${url.origin} did not answer with a list.`)
      if (list.length > ROWS_MAX) throw new Error(`${url.origin} answered with more than ${ROWS_MAX} rows.`)
      const rows = list.filter(isJsonObject)
      // A row that is dropped would be lost for ever: the cursor moves past it.
      if (rows.length < list.length) throw new Error(`${url.origin} answered with a row that is no object.`)
      const groups = Map.groupBy(rows, (each) =>
        textOf(each[config.partition_by] ?? 'none').slice(0, config.partition_chars),
      )
      const [output] = row.outputs
      for (const [partition, found] of output ? groups : [])
        await data.writeRows(output as { kind: string; location: string }, {
          partition,
          rows: found,
          uniqueKey: job.unique_key,
          strategy: 'append',
        })
      const cursor = greatest(
        rows.map((each) => each[config.cursor ?? '']),
        last ?? null,
      )
      return {
        outputs: groups.size > 0 ? [{ index: 0, partitions: [...groups.keys()].toSorted(), rows: rows.length }] : [],
        ...(config.cursor !== undefined && { state: { cursor } }),
      }
    },
  })

const textOf = (value: JsonValue): string => (typeof value === 'string' ? value : JSON.stringify(value))

const greatest = (values: readonly (JsonValue | undefined)[], last: JsonValue): JsonValue =>
  values.reduce<JsonValue>(
    (most, value) => (value === undefined || value === null || (most !== null && value <= most) ? most : value),
    last,
  )

/** A governed command as a step: policy, approvals, effects and undo are those of the command. */
const command: Operator = defineOperator({
  name: COMMAND_OPERATOR,
  config: z.strictObject({
    task: z.string().min(1),
    payload: z.record(z.string(), z.json()).optional(),
    /** Adds `partitions` to the payload. */
    with_partitions: z.boolean().optional(),
  }),
  // Followed by the drive of its task.
  do: () => Promise.reject(new Error('A command is submitted, not run.')),
})

export function openOperators(own: readonly Operator[], fetch: Fetch): Operators {
  const all = [httpPoll(fetch), command, ...own]
  const twice = all.find(({ name }, at) => all.findIndex((other) => other.name === name) < at)
  if (twice) throw new Error(`Two operators are called ${twice.name}.`)
  return new Map(all.map((each) => [each.name, each]))
}
