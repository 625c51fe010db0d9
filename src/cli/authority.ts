/** The chain of authority of a run as a table: the person, then one line for each run down to it, with what each may not do any more. */
import type { authorityView } from '#domains/agents'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import type { Page } from './client.ts'
import { findNames } from './names.ts'
import { type Said, table, type ViewOf } from './noun.ts'
import type { Cli, Terminal } from './terminal.ts'

export type AuthorityChain = ViewOf<typeof authorityView>
type Link = AuthorityChain['links'][number]

const HASH_CHARS = 12

type Line = { readonly who: string; readonly status: string; readonly hash: string; readonly may: string }

const columns = {
  who: ({ who }: Line) => who,
  status: ({ status }: Line) => status,
  hash: ({ hash }: Line) => hash,
  may: ({ may }: Line) => may,
}

export async function formatAuthority(cli: Cli, { requested_by, links }: AuthorityChain): Promise<string> {
  const nameOf = await findNames(cli, [requested_by])
  const lines = links.map((link, at) => ({
    who: `${'  '.repeat(at)}└ ${link.agent_name}`,
    status: link.fault === null ? 'proven' : 'broken',
    hash: link.authority_hash?.slice(0, HASH_CHARS) ?? '',
    may: link.fault === null ? sayAuthority(link, links[at - 1]) : faults[link.fault],
  }))
  const person = { who: nameOf(requested_by), status: 'person', hash: '', may: 'what this person may do today' }
  return table(cli.terminal, columns, [person, ...lines], { long: 'wrap' })
}

/** What a run may do; below another run, what it has less or more than that one. */
function sayAuthority(link: Link, above: Link | undefined): string {
  const steps = `${link.max_steps}${above ? ` of ${above.max_steps}` : ''} steps`
  if (!above) return [`uses ${listOf(link.allowed_tools, 'no tool')}`, ...connectorsOf(link), steps].join('; ')
  return [
    ...(link.removed_tools.length > 0 ? [`without ${listOf(link.removed_tools)}`] : []),
    ...(link.removed_connectors.length > 0 ? [`without the connectors ${listOf(link.removed_connectors)}`] : []),
    ...(link.delegated_tools.length > 0 ? [`was passed ${listOf(link.delegated_tools)}`] : []),
    steps,
  ].join('; ')
}

const listOf = (names: readonly string[], none = '') => (names.length === 0 ? none : names.join(', '))
const connectorsOf = ({ allowed_connectors: names }: Link) =>
  names.length === 0 ? [] : [`connectors ${listOf(names)}`]

const faults: Readonly<Record<NonNullable<Link['fault']>, string>> = {
  no_parent: 'The run above it is missing.',
  no_person: 'No person asked for it.',
  other_hash: 'Its row does not have this hash: what it may do was changed.',
  other_parent: 'It was started under another authority than the run above it has.',
  other_manifest: 'Its manifest does not have the hash of its row.',
  other_event: 'The event of its start has another hash.',
  wider_than_parent: 'It may do more than the run above it.',
}

/** One line for each run. */
export function formatProofs(terminal: Terminal, { items, next_cursor }: Page<AuthorityChain>): Said {
  if (items.length === 0) return ['', 'There are none.\n']
  const rest = next_cursor ? `There are older runs, which were not verified. Verify them by their ids.\n` : ''
  return [table(terminal, ofRuns, items), rest]
}

const ofRuns = {
  run: ({ agent_run_id }: AuthorityChain) => agent_run_id,
  agent: ({ links }: AuthorityChain) => links.at(-1)?.agent_name,
  status: ({ is_proven }: AuthorityChain) => (is_proven ? 'proven' : 'broken'),
  links: ({ links }: AuthorityChain) => String(links.length),
}

/** Refuses with the first link that is not proven. */
export function judgeAuthority(chains: readonly AuthorityChain[]): Decision<undefined> {
  const broken = chains.flatMap(({ links }) => links).find(({ fault }) => fault !== null)
  if (!broken) return accept(undefined)
  const where = { path: broken.agent_run_id }
  return refuse('cli.authority.broken', `The chain is broken at ${showLine(broken.agent_name)}.`, where)
}
