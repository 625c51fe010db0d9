/** Secrets that a text names: `password=…`, `"password":"…"`, `--password …`, "my password is …". The name says that the value is one. */
import { isSecretName } from './secret-name.ts'
import type { SecretRule } from './secret-rule.ts'
import {
  endsSentence,
  isAssignedSecret,
  isNoWord,
  isPlaceholder,
  isSpokenSecret,
  isWrittenSecret,
} from './spoken-secret.ts'

/** One of these is in every name of a secret. */
const PART =
  'pass(?:w[o0]r[dt]|wd|phrase|code)?|p4ssw[o0]rd|pwd|kennwort|secret|token|key|cred(?:ential)?|cv[vc]|csc|pin|otp|auth(?:orization)?|cookie|phrase|words|code|mnemonic|string|jwt|pw'
const PART_KEYWORDS =
  'pass p4ss pwd kennwort secret token key cred cvv cvc csc pin otp auth cookie phrase words code mnemonic string jwt pw'.split(
    ' ',
  )

/** People say these, and a plain word may follow. */
const SPOKEN =
  'p[a4]ssw[o0]rd|passwd|pass ?phrase|pass ?code|pwd|pin(?:[ -](?:code|number))?|otp|one[- ]time code|cvv2?|cvc2?|(?:security|access|recovery|backup|login) code|(?<!\\b[\\d.,]+\\s?)pw'
const SPOKEN_KEYWORDS = [
  'passw',
  'p4ssw',
  'passp',
  'pass p',
  'passc',
  'pass c',
  'pwd',
  'pw',
  'pin',
  'otp',
  'cvv',
  'cvc',
  ' code',
]
/** A pin may also be a part of a machine: only digits count. */
const DIGITS_NOUN = /^(?:pin|cv[vc])/i

/** People paste these. */
const PASTED =
  '(?:(?:api|access|secret|private|signing|encryption|master|auth|service|refresh|bearer|session)[ _-]?(?:key|token)|client[ _-]?secret|token)'
const PASTED_KEYWORDS = ['key', 'token', 'secret']
/** The id of a record of Concord or of a ticket, or the name of a file. */
const ID = /^(?:[a-z]+_[\da-f]{32}|[A-Z]+-\d+|id_\w+|.*\.[a-z]{2,5})$/

/** What the secret is for: "password for prod: …", "password (prod): …", "password prod: …". `name(argument):` is code. */
const PLACE = '(?:prod|production|dev|test|live|staging|new|old|current)'
const BRACKETS = '[([{<][^\\n()[\\]{}<>"]{1,60}[)\\]}>]'
const ABOUT = `\\s(?:for|of|to|on|at|in)\\s(?:"[^"\\n]{1,60}"|(?:[^\\n.!?:="($[{]|\\.(?=\\S)){1,60}?)(?:\\s${BRACKETS})?|\\s${BRACKETS}|[([{<]${PLACE}[)\\]}>]|\\s?[-–—/|,]?\\s?${PLACE}`
/** The name of a person follows: "Reset the password for user: ada". */
const ASKED =
  /\b(?:reset|rotat|forg[eo]t|lost|sen[dt]|request|need|chang|updat|recover|renew|revok|expire|creat|generat|issu|assign|wrong|invalid|incorrect)[a-z]*\s(?:[\w.-]+\s)?$/i
const WHOSE =
  /\b(?:users?|usernames?|accounts?|customers?|clients?|persons?|people|employees?|members?|colleagues?|emails?|logins?|names?|ids?)$/i
const EMAIL = /^[\w.+-]+@[\w-]+\.[\w.-]+$/

/** In quotation marks, up to the same mark, or up to a space or a separator. */
const VALUE =
  /(?<escape>\\{0,3})(?:(?<quote>["'`])(?<secret>(?:(?!\k<quote>)[^\n\\]|\\[^\n]){1,256}?)\k<escape>\k<quote>|["'`]?(?<secret>[^\s"'`\\][^\s"'`,;&<>\\]{0,255}))/y

/** A pass of another kind. */
const TICKET =
  /(?:boarding|bus|ski|season|day|train|rail|museum|visitor|guest|press|hall|travel|parking|lift|city|park|gate|event|entry|mountain|first|second|last) $/i
/** "450 pw" is per week, "10 PW" is a power. */
const AMOUNT = /(?:^| )[\d.]+ $/
const NAME_CHARS_MAX = 64
const WORDS_BEFORE = 2

function isNameCharacter(code: number): boolean {
  return (
    (code >= 97 && code <= 122) ||
    (code >= 65 && code <= 90) ||
    (code >= 48 && code <= 57) ||
    code === 95 ||
    code === 45 ||
    code === 46
  )
}

/** The word that ends at a position, and the words before it. */
function nameBefore(text: string, end: number): { readonly word: string; readonly before: string } {
  let at = end
  const first = Math.max(0, end - NAME_CHARS_MAX)
  while (at > first && isNameCharacter(text.charCodeAt(at - 1))) at--
  const start = at
  for (let words = 0; words < WORDS_BEFORE && at > first + 1 && text[at - 1] === ' '; words++) {
    let next = at - 1
    while (next > first && isNameCharacter(text.charCodeAt(next - 1))) next--
    if (next === at - 1) break
    at = next
  }
  return { word: text.slice(start, end), before: text.slice(at, start) }
}

/** Returns the name that makes the value a secret. */
function secretNameAt(match: RegExpExecArray): string | undefined {
  const { part = '', tail = '' } = match.groups ?? {}
  const { word, before } = nameBefore(match.input, match.index)
  const name = word + part + tail
  if (/^pw$/i.test(name) && AMOUNT.test(before)) return undefined
  if (isSecretName(name) && !(/^pass$/i.test(name) && TICKET.test(before))) return name
  return before !== '' && isSecretName(before + name) ? before + name : undefined
}

const REST_CHARS = 260

/** The text from a position on, as far as a decision reads it. */
function restOf({ input }: RegExpExecArray, from: number): string {
  return input.slice(from, from + REST_CHARS)
}

/** The text after a value that a lookahead has read. */
function afterValue(match: RegExpExecArray): string {
  const { secret = '', quote = '' } = match.groups ?? {}
  return restOf(match, match.index + match[0].length + secret.length + quote.length)
}

function isAssignment(match: RegExpExecArray, value: RegExpExecArray): boolean {
  const { close = '', sign = '', about } = match.groups ?? {}
  const { secret = '', quote } = value.groups ?? {}
  // `secret://team/db` is an address.
  if (sign === ':' && secret.startsWith('//')) return false
  const name = secretNameAt(match) ?? ''
  if (about !== undefined) return isToldFor(match, value, name)
  const isStrong = quote !== undefined && /["'`]/.test(close)
  if (isStrong || sign.includes('=') || sign === '>') return isAssignedSecret(name, secret, isStrong)
  return isWrittenSecret(name, secret, () => restOf(match, value.index + value[0].length), !/[a-z]/i.test(sign))
}

/** "password for prod: swordfish". People write it, whatever the sign is. */
function isToldFor(match: RegExpExecArray, value: RegExpExecArray, name: string): boolean {
  const { about = '', sign = '' } = match.groups ?? {}
  const { secret = '' } = value.groups ?? {}
  const { before } = nameBefore(match.input, match.index)
  const isWord = !isNoWord(secret)
  if ((isWord || EMAIL.test(secret)) && ASKED.test(before) && WHOSE.test(about)) return false
  // "It looks for secrets in a text, by rule: …" goes on after the name.
  if (/[,;]/.test(about) && !isSecretName(name, 'word')) return false
  // The pass for Monday is a ticket.
  if (isWord && /^pass$/i.test(name)) return false
  return isWrittenSecret(name, secret, () => restOf(match, value.index + value[0].length), !/[a-z]/i.test(sign))
}

const NO_VALUE = /^(?:-|(?:is|are|was|to|and|or|for|in|with|as|if|on|from|option|flag|must|may|can)$)/

const isNamed = ({ groups }: RegExpExecArray): boolean => isSecretName(groups?.['name'] ?? '')

function isOption({ groups }: RegExpExecArray, value: RegExpExecArray): boolean {
  const secret = value.groups?.['secret'] ?? ''
  return isAssignedSecret(groups?.['name'] ?? '', secret, true) && !NO_VALUE.test(secret)
}

/** `"name":"password","value":"x"`, `["--password","x"]`, `["password","hunter2"]`. A list of names has words: `["password","email"]`. */
function isPair({ groups }: RegExpExecArray, value: RegExpExecArray): boolean {
  const secret = value.groups?.['secret'] ?? ''
  if (isPlaceholder(secret)) return false
  return groups?.['field'] !== undefined || (groups?.['dashes'] === '' ? /\d/.test(secret) : !secret.startsWith('-'))
}

/** Digits, or a text that is no word, or a word that ends the sentence. */
function isSpoken(match: RegExpExecArray): boolean {
  const { noun = '', sign = '', secret = '' } = match.groups ?? {}
  if (DIGITS_NOUN.test(noun) && !/^\d[\d -]{2,}/.test(secret)) return false
  // "The rent pw is 450": per week.
  if (/^pw$/i.test(noun) && /^\d{1,3}\b/.test(secret)) return false
  const isWeak = /['’]s|[-–—]/.test(sign)
  return isSpokenSecret(secret, afterValue(match)) && (!isWeak || /\d/.test(secret))
}

/** "password hunter2", `password "swordfish"`. Without a verb a word needs quotation marks. */
function isNextTo(match: RegExpExecArray): boolean {
  const { quote = '', secret = '', noun = '' } = match.groups ?? {}
  if (DIGITS_NOUN.test(noun) && !/^\d{4,8}\b/.test(secret)) return false
  if (quote === '' && !/\d/.test(secret)) return false
  if (secret.length < 4 || /^[a-z]+:\/\//i.test(secret)) return false
  const rest = afterValue(match)
  return quote === '' ? endsSentence(secret, rest) && isSpokenSecret(secret, rest) : isSpokenSecret(secret, '')
}

/** "api key swordfish99abc". */
function isPasted(match: RegExpExecArray): boolean {
  const { quote = '', secret = '' } = match.groups ?? {}
  if (secret.length < 8 || !/\d/.test(secret) || !/[a-z]/i.test(secret) || ID.test(secret.replace(/[.,;:!?]+$/, '')))
    return false
  const rest = afterValue(match)
  const isCertain = quote !== '' || /^(?=.*\d.*\d)[a-z\d]{10,}$/i.test(secret) || endsSentence(secret, rest)
  return isCertain && isSpokenSecret(secret, rest)
}

/** "my passwords are hunter2 and hunter3". One ordinary word says what they are like: "passwords are rubbish". */
function isList(match: RegExpExecArray): boolean {
  const { noun = '', pasted, secret = '' } = match.groups ?? {}
  const items = secret
    .split(/\s?,\s?(?:and\s|or\s)?|\s(?:and|or|&)\s/)
    .map((item) => item.replace(/^["'`“]|["'`”]$/g, ''))
  const rest = afterValue(match)
  const isTold = (item: string) => isSpokenSecret(item, items.length === 1 ? rest : '')
  const leastDigits = /^pin/i.test(noun) ? 4 : 3
  if (DIGITS_NOUN.test(noun))
    return items.some((item) => /^\d{3,8}$/.test(item) && item.length >= leastDigits && isTold(item))
  if (pasted !== undefined)
    return items.some((item) => item.length >= 8 && /\d/.test(item) && /[a-z]/i.test(item) && isTold(item))
  return items.some((item) => isNoWord(item) && isTold(item)) || (items.length > 1 && items.every(isTold))
}

/** "swordfish is my password". A question tells nothing. */
function isToldBefore(match: RegExpExecArray): boolean {
  const { secret = '', verb = '', about } = match.groups ?? {}
  // "Which system is the password for prod": an ordinary word must begin the sentence.
  const sentence =
    match.input
      .slice(Math.max(0, match.index - REST_CHARS), match.index)
      .split(/[.!?\n]\s?/)
      .at(-1) ?? ''
  if (about !== undefined && !isNoWord(secret) && !sentence.trimStart().startsWith(secret)) return false
  return isSpokenSecret(secret.replace(/^["'`“(]+/, ''), '') && (/^(?:is|was)$/.test(verb) || /\d/.test(secret))
}

const rule = (
  keywords: readonly string[],
  shape: string,
  holds: Required<SecretRule>['holds'],
  names?: SecretRule['names'],
): SecretRule => ({ keywords, shape: new RegExp(shape, 'gi'), holds, ...(names && { names, value: VALUE }) })

const PROGRAM = '(?:sshpass|mysql\\w*|mariadb\\w*|login|redis-cli|ldap\\w+|(?:un)?zip|7z)'
const SPOKEN_VALUE = '["\'`“‘«*(]{0,2}(?=(?<secret>[^\\s"\'`“”]{3,256}))'

const ITEM = '[^\\s,;]{3,64}'

export const namedRules: readonly SecretRule[] = [
  rule(
    PART_KEYWORDS,
    `(?<part>${PART})(?<tail>[\\w.-]{0,24})(?<close>[\\\\"'\`\\])]{0,4})(?<about>${ABOUT})?(?<sign>\\s{0,3}(?:=>|->|:=|={1,2}|:|→)\\s{0,3}|\\s(?:is|was)\\s|>(?=[^<]{1,256}<\\/))`,
    isAssignment,
    (match) => secretNameAt(match) !== undefined,
  ),
  rule(
    PART_KEYWORDS,
    `["'](?<dashes>-{0,2})(?<name>[\\w.-]{2,64})\\\\{0,3}["']\\s{0,3},\\s{0,3}(?<field>\\\\{0,3}["'](?:value|val|v|data|content|text|answer)\\\\{0,3}["']\\s{0,3}:\\s{0,3})?(?=\\\\{0,3}["'])`,
    isPair,
    isNamed,
  ),
  rule(['--'], `(?<![\\w-])--(?<name>[a-z][\\w-]{1,63})[= ] {0,2}`, isOption, isNamed),
  rule(
    SPOKEN_KEYWORDS,
    `\\b(?<noun>${SPOKEN})(?:${ABOUT})?(?<sign>['’]s|\\s{1,3}(?:is|was|are|equals|reads|will be|has been|[-–—])(?:\\s(?:now|still|just|actually|currently|simply|(?:re)?set to|changed to|updated to|called))?:?)\\s{1,3}${SPOKEN_VALUE}`,
    isSpoken,
  ),
  rule(
    SPOKEN_KEYWORDS,
    `\\b(?:set|chang|updat|reset|mak)[a-z]{0,4}\\s(?:[\\w'’-]{1,20}\\s){0,4}?(?<noun>${SPOKEN})(?:\\s(?:for|of|on)\\s[^\\n.!?:="]{1,60}?)?(?<sign>\\s(?:to|as)\\s)${SPOKEN_VALUE}`,
    isSpoken,
  ),
  rule(SPOKEN_KEYWORDS, `\\b(?<noun>${SPOKEN})\\s{1,2}(?<quote>["'\`“]?)(?=(?<secret>[^\\s"'\`“”]{3,256}))`, isNextTo),
  rule(PASTED_KEYWORDS, `\\b${PASTED}\\s{1,2}(?<quote>["'\`“]?)(?=(?<secret>[^\\s"'\`“”]{8,256}))`, isPasted),
  rule(
    [...SPOKEN_KEYWORDS, ...PASTED_KEYWORDS],
    `\\b(?:(?<noun>${SPOKEN})|(?<pasted>${PASTED}))s(?:${ABOUT})?(?:\\s{0,3}[:=]|\\s(?:are|were|will be)(?:\\snow)?:?)\\s{1,3}(?=(?<secret>${ITEM}(?:(?:\\s?,\\s?(?:and\\s|or\\s)?|\\s(?:and|or|&)\\s)${ITEM}){0,9}))`,
    isList,
  ),
  rule(
    SPOKEN_KEYWORDS,
    `(?=(?:${SPOKEN})(?<about>\\s(?:for|of|on|to|at|in)\\s[^\\n.!?]{1,60})?\\s*(?:$|[.,;!)\\n]))(?<=(?<secret>[^\\s]{3,64})\\s(?<verb>is|was|as|for)\\s(?:my|our|the|his|her|their|your)\\s(?:[\\w-]{1,20}\\s){0,2})(?:${SPOKEN})`,
    isToldBefore,
  ),
  // Options of one letter, for the programs that take a password that way. A number may be a port.
  rule(
    ['sshpass', 'mysql', 'mariadb', 'login', 'redis-cli', 'ldap', 'zip', '7z'],
    `\\b${PROGRAM}\\s(?:(?:(?!${PROGRAM})[^\\n|]){0,200}?\\s)?-[pPwa]\\s?["']?(?=(?<secret>[^\\s"'-][^\\s"']{2,255}))`,
    ({ groups }) => !/^\d{1,5}$/.test(groups?.['secret'] ?? '') && !isPlaceholder(groups?.['secret'] ?? ''),
  ),
]
