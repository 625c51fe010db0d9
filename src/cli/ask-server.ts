/** One question to the server and its answer shown: as the server's own document with --json, in words otherwise. */
import type { Command } from 'commander'
import { decodeId, idPrefixes } from '#kernel/ids'
import { accept, type Decision, quote } from '#kernel/refusal'
import { openClient } from './client.ts'
import { withHint } from './next-hint.ts'
import type { Cli, Outcome } from './terminal.ts'

export async function askServer<Answer>(
  cli: Cli,
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
  path: string,
  body?: unknown,
): Promise<Decision<Answer>> {
  const client = openClient(cli.terminal)
  if (!client.ok) return client
  const answer = await client.value.call<Answer>(method, path, body)
  return answer.ok ? answer : withHint(answer, path)
}

export function isJson(program: Command): boolean {
  return program.opts()['json'] === true
}

/** `say` is called for people only; the document is not touched. */
export function showAnswer<Answer>(
  cli: Cli,
  program: Command,
  answer: Decision<Answer>,
  say: (answer: Answer) => void,
): Outcome {
  if (!answer.ok) return answer
  if (isJson(program)) cli.terminal.out(`${JSON.stringify(answer.value)}\n`)
  else say(answer.value)
  return accept(undefined)
}

const WHERE = {
  command: '`concord commands list` shows the ids of commands.',
  approval: '`concord inbox` shows the ids of approvals.',
  artifact: '`concord artifacts list` shows the ids of artifacts.',
} as const

const named = { command: 'a command', approval: 'an approval', artifact: 'an artifact' } as const
const kinds = ['command', 'approval', 'artifact'] as const

/** The path of one thing, if what was typed can be its id at all; a typing mistake needs no server. */
export function pathOf(kind: keyof typeof WHERE, id: string, verb = ''): Decision<string> {
  const decoded = decodeId(kind, id)
  if (decoded.ok) return accept(`/${kind}s/${encodeURIComponent(id)}${verb}`)
  const other = kinds.find((each) => each !== kind && id.startsWith(`${idPrefixes[each]}_`))
  const mixedUp = other ? `This is the id of ${named[other]}. ` : ''
  const reason = `${quote(id)} is not the id of ${named[kind]}`
  return { ...decoded, reason, path: '<id>', hint: mixedUp + WHERE[kind] }
}

/** Optional flags as the fields of a body: what was not said is not sent. */
export function fieldsOf(flags: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(flags).filter(([, value]) => value !== undefined))
}
