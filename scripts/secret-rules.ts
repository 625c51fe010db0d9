/**
 * Writes src/kernel/secrets/gitleaks-rules.ts from a configuration file of gitleaks:
 *
 *   node scripts/secret-rules.ts <path of config/gitleaks.toml> <version of gitleaks>
 *
 * Patterns are translated from RE2 to JavaScript. Rules that need the name of a file, rules about ids that are not secret, and rules that
 * src/kernel/secrets/own-rules.ts covers better are left out.
 */
import { readFile, writeFile } from 'node:fs/promises'
import type { GitleaksRule } from '../src/kernel/secrets/gitleaks-rules.ts'

const target = new URL('../src/kernel/secrets/gitleaks-rules.ts', import.meta.url)

/** Covered by own-rules.ts, where they need no other word next to the secret, or find less that is none. */
const COVERED = [
  'generic-api-key',
  'curl-auth-header',
  'curl-auth-user',
  'jwt',
  'private-key',
  'sourcegraph-access-token',
  'airtable-personnal-access-token',
  'facebook-access-token',
  'telegram-bot-api-token',
]
const NO_SECRET = /-(?:client-id|access-id|pub-key|public-key|pub-api-key|user-api-id)$|^mapbox-api-token$/
/** The forms that gitleaks gives to rules about `name = value`, and to the end of a secret. */
const LEAD = String.raw`[\w.-]{0,50}?`
const ASSIGNED = String.raw`(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}`
const ASSIGNED_IN_GROUP = String.raw`(?:[ \t\w.-]{0,20})[\s'"]{0,3})(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}`
const END = String.raw`(?:[\x60'"\s;]|\\[nr]|$)`

/** Keywords of two letters are in every other text; with the character that follows them they are rare. */
const RARE_KEYWORDS: Readonly<Record<string, readonly string[]>> = {
  'twilio-api-key': '0123456789abcdef'.split('').map((letter) => `sk${letter}`),
  'azure-ad-client-secret': '0123456789'.split('').map((digit) => `${digit}q~`),
  'vault-service-token': ['hvs.', ...'abcdefghijklmnopqrstuvwxyz0123456789'.split('').map((letter) => `s.${letter}`)],
}

type Fields = Readonly<Record<string, string | readonly string[]>>

/** Reads the one form of TOML that gitleaks generates: a table per rule, literal strings, and lists of them. */
function readRules(toml: string): readonly Fields[] {
  return toml
    .split(/^\[\[rules\]\]$/m)
    .slice(1)
    .map((table) => {
      const [own = '', ...allowlists] = table.split(/^\s*\[\[rules\.allowlists\]\]$/m)
      const isAboutFiles = /^\s*(?:paths|regexTarget) = /m
      const allowed = allowlists
        .filter((list) => !isAboutFiles.test(list))
        .flatMap((list) => readFields(list)['regexes'] ?? [])
      return { ...readFields(own), allowed }
    })
}

const STRING = String.raw`'''[\s\S]*?'''|"(?:[^"\\]|\\.)*"`

function readFields(table: string): Fields {
  const pattern = new RegExp(
    String.raw`^\s*(\w+) = (?:(${STRING})|([\d.]+)|\[((?:\s*(?:${STRING}),?|\s*#.*)*)\s*\])`,
    'gm',
  )
  return Object.fromEntries(
    [...table.matchAll(pattern)].map(([, name = '', text, number, list]) => [
      name,
      list === undefined
        ? textOf(text ?? number ?? '')
        : [...list.matchAll(new RegExp(STRING, 'g'))].map(([each]) => textOf(each)),
    ]),
  )
}

function textOf(literal: string): string {
  return literal.startsWith("'''")
    ? literal.slice(3, -3)
    : literal.startsWith('"')
      ? (JSON.parse(literal) as string)
      : literal
}

/** `(?i)` inside a group holds to the end of the group; JavaScript has only groups with modifiers. */
function translate(re2: string): { readonly pattern: string; readonly flags: string } {
  const isFolded = re2.startsWith('(?i)')
  let pattern = ''
  const open: number[] = [0]
  const rest = re2
    .replace(/^\(\?i\)/, '')
    .replaceAll('[[:alnum:]]', '[a-zA-Z0-9]')
    .replaceAll(String.raw`\z`, '$')
    .replaceAll(/\(\?P<\w+>/g, '(?:')
  for (const token of rest.match(/\\.|\[(?:\\.|[^\]\\])*\]|\(\?i\)|[\s\S]/g) ?? []) {
    if (token === '(?i)') {
      pattern += '(?i:'
      open[open.length - 1] = (open.at(-1) ?? 0) + 1
    } else if (token === '(') {
      open.push(0)
      pattern += token
    } else if (token === ')') pattern += `${')'.repeat(open.pop() ?? 0)})`
    else pattern += token
  }
  pattern += ')'.repeat(open[0] ?? 0)
  return { pattern: new RegExp(pattern, isFolded ? 'i' : '').source, flags: isFolded ? 'i' : '' }
}

function convert(fields: Fields): GitleaksRule {
  const { id, regex, entropy, keywords = [], allowed = [] } = fields
  if (typeof id !== 'string' || typeof regex !== 'string') throw new Error(`no rule: ${JSON.stringify(fields)}`)
  const bare = regex.replaceAll(LEAD, '').replaceAll(END, String.raw`(?!\w)`)
  // A value with a prefix of its own needs no other sign.
  const isAssigned = bare.includes(`${ASSIGNED}([`) || bare.includes(`${ASSIGNED_IN_GROUP}([`)
  const { pattern, flags } = translate(bare)
  return {
    id,
    keywords: RARE_KEYWORDS[id] ?? (typeof keywords === 'string' ? [keywords] : keywords),
    pattern,
    ...(flags === '' ? {} : { flags }),
    ...(entropy === undefined ? {} : { entropy: Number(entropy) }),
    ...(isAssigned ? { isAssigned } : {}),
    ...(allowed.length === 0 ? {} : { allowed: (allowed as readonly string[]).map((each) => translate(each).pattern) }),
  }
}

const [file, version] = process.argv.slice(2)
if (file === undefined || version === undefined)
  throw new Error('usage: node scripts/secret-rules.ts <gitleaks.toml> <version>')
const rules = readRules(await readFile(file, 'utf8')).filter(
  ({ id, path, regex }) =>
    regex !== undefined && path === undefined && !COVERED.includes(String(id)) && !NO_SECRET.test(String(id)),
)
const lines = rules.map(convert).map((rule) => `  ${JSON.stringify(rule)},`)
await writeFile(
  target,
  `/**
 * The shapes of secrets that gitleaks knows. Generated by scripts/secret-rules.ts from config/gitleaks.toml of gitleaks ${version}; do not edit.
 * Copyright (c) 2019 Zachary Rice, under the MIT licence: see NOTICE.
 */
export type GitleaksRule = {
  readonly id: string
  /** In lower case. A text without one of them cannot match. */
  readonly keywords: readonly string[]
  readonly pattern: string
  readonly flags?: string
  /** The least Shannon entropy of the secret, in bits per character. */
  readonly entropy?: number
  /** The pattern is about \`name = value\`, and a value of any letters and digits. */
  readonly isAssigned?: boolean
  /** A secret that matches one of these is none. */
  readonly allowed?: readonly string[]
}

// biome-ignore format: one rule per line
export const gitleaksRules: readonly GitleaksRule[] = [
${lines.join('\n')}
]
`,
)
console.log(`${rules.length} rules of gitleaks ${version}`)
