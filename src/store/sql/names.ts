/** Checks the names and types that become part of a statement's text, although they come from descriptors in code. */
import { hash } from 'node:crypto'
import { KernelFault } from '#kernel/errors'

const NAME = /^[a-z_][a-z0-9_]{0,62}$/

/** The column types that the mechanisms write; an array column goes as `jsonb` or through a statement of its own. */
const pgTypes = [
  'text',
  'uuid',
  'integer',
  'bigint',
  'numeric',
  'boolean',
  'timestamptz',
  'json',
  'jsonb',
  'ms_from_now',
] as const
export type PgType = (typeof pgTypes)[number]
export type Columns = Readonly<Record<string, PgType>>

/**
 * `ms_from_now` is not a type of Postgres: the value is a number of milliseconds, the column a time by the database's clock. A lease that
 * others check by that clock must not be set by another one.
 */
export function castOf(type: PgType): string {
  return type === 'ms_from_now' ? 'double precision' : type
}

/** Returns the SQL expression of a column's value from its parameter. */
export function readAs(type: PgType, sent: string): string {
  return type === 'ms_from_now' ? `statement_timestamp() + make_interval(secs => ${sent} / 1000)` : sent
}

export function columnName(name: string): string {
  if (!NAME.test(name)) throw new KernelFault('store.name.invalid', `${name} is no column name`)
  return name
}

/** `table` or `schema.table`. */
export function tableName(name: string): string {
  const parts = name.split('.')
  if (parts.length > 2 || !parts.every((part) => NAME.test(part))) {
    throw new KernelFault('store.name.invalid', `${name} is no table name`)
  }
  return name
}

/**
 * Returns a name that changes with the text. Postgres silently truncates names at 63 characters, and a connection refuses one
 * name for two texts, so the name contains a hash of the text.
 */
export function statementName(label: string, text: string): string {
  return `${label.replaceAll(/[^a-z0-9_]+/gi, '_').slice(0, 40)}_${hash('sha1', text).slice(0, 16)}`
}

/**
 * A value as the driver should send it: arrays and objects of a JSON column as text, never as a Postgres array; a time in
 * UTC, since the driver's own form is in the zone of the process, and as `+00`: Postgres looks a `Z` up among the names of
 * time zones, and reading the time then takes 1.7 µs in place of 0.8.
 */
export function encode(type: PgType, value: unknown): unknown {
  if (value === undefined || value === null) return null
  if (type === 'json' || type === 'jsonb') return JSON.stringify(value)
  return value instanceof Date ? value.toISOString().replace('Z', '+00') : value
}
