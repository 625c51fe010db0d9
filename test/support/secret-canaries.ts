/** Secrets to plant: one of each shape that reports of leaks name, and one for each rule of gitleaks. The same seed gives the same secrets. */
import fc from 'fast-check'
import { gitleaksRules } from '../../src/kernel/secrets/gitleaks-rules.ts'

export type SecretCanary = {
  readonly name: string
  readonly text: string
  /** The part of the text to search for. */
  readonly core: string
}

const SHAPES: Readonly<Record<string, (hex: string) => string>> = {
  'a password with =': (hex) => `password=${hex}`,
  'a password with a colon': (hex) => `password: ${hex}`,
  'a password in a sentence': (hex) => `My password is ${hex}, please log in.`,
  'a password in JSON': (hex) => `{"user":"ada","password":"${hex}"}`,
  'a passphrase': (hex) => `passphrase => '${hex}'`,
  'an API key': (hex) => `api_key=${hex}`,
  'an API key in words': (hex) => `The api key: ${hex}`,
  'a client secret': (hex) => `client_secret=${hex}`,
  'a secret in an environment': (hex) => `export SESSION_SECRET="${hex}"`,
  'a token in a query': (hex) => `https://api.example.com/x?page=2&access_token=${hex}`,
  'an encoded query': (hex) => `next=%3Faccess_token%3D${hex}`,
  'a key of AWS': (hex) => `aws_secret_access_key=${hex}AAAAAAAAAAAAAAAA`,
  'an id of AWS': (hex) => `AKIA${hex.slice(0, 16).toUpperCase()}`,
  'a session of AWS': (hex) => `ASIA${hex.slice(0, 16).toUpperCase()}`,
  'a signed address of AWS': (hex) => `https://b.s3.amazonaws.com/k?X-Amz-Signature=${hex}`,
  GitLab: (hex) => `glpat-${hex.slice(0, 20)}`,
  'GitHub, fine-grained': (hex) => `github_pat_${hex}${hex}`,
  GitHub: (hex) => `ghp_${hex}`,
  npm: (hex) => `npm_${hex}aaaa12345678`,
  PyPI: (hex) => `pypi-AgEIcHlwaS5vcmc${hex}${hex}${hex}`,
  Google: (hex) => `AIzaSy${hex}abcdefghi`,
  SendGrid: (hex) => `SG.${hex.slice(0, 22)}.${hex}${hex}`,
  'a webhook of Slack': (hex) => `https://hooks.slack.com/services/T00000000/B00000000/${hex}`,
  Slack: (hex) => `xoxb-123456789012-${hex}`,
  'a webhook of Discord': (hex) => `https://discord.com/api/webhooks/123456789012345678/${hex}`,
  'a webhook of Teams': (hex) => `https://x.webhook.office.com/webhookb2/${hex}@${hex}/IncomingWebhook/${hex}`,
  'storage of Azure': (hex) =>
    `DefaultEndpointsProtocol=https;AccountName=x;AccountKey=${hex}${hex}==;EndpointSuffix=y`,
  'a bus of Azure': (hex) => `Endpoint=sb://x/;SharedAccessKeyName=Root;SharedAccessKey=${hex}=`,
  'an address of Azure': (hex) => `https://x.blob.core.windows.net/c?sv=2026&sig=${hex}%3D`,
  'a connection of SQL Server': (hex) => `Server=x;User Id=sa;Password=${hex};`,
  'a connection URL': (hex) => `postgres://app:${hex}@db.example.com:5432/x`,
  'basic authentication in a URL': (hex) => `https://ada:${hex}@example.com/`,
  'a private key of PGP': (hex) =>
    `-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n${hex}\n-----END PGP PRIVATE KEY BLOCK-----`,
  'a truncated private key': (hex) => `-----BEGIN RSA PRIVATE KEY-----\n${hex}`,
  'a bearer': (hex) => `Authorization: Bearer ${hex}`,
  'a token in a header': (hex) => `curl -H 'Authorization: Token ${hex}' https://x.example`,
  'a user of curl': (hex) => `curl -s -u ada:${hex} https://x.example`,
  'a signed token': (hex) => `eyJhbGciOiJIUzI1NiJ9.${hex}.${hex}`,
  Stripe: (hex) => `sk_live_${hex}`,
  'Concord itself': (hex) => `ck_abcdef012345_${hex}`,
  'a full-width name': (hex) => `ｐａｓｓｗｏｒｄ=${hex}`,
  'an invisible character': (hex) => `pass\u200bword=${hex}`,
  'a card': (hex) => `cvv=123 password=${hex}`,
}

/** The same secrets in the spellings of people and of programs. */
const VARIATIONS: Readonly<Record<string, (hex: string) => string>> = {
  'a spoken password': (hex) => `My password is ${hex}`,
  'a password of something': (hex) => `The password for the staging database is ${hex}.`,
  'a past password': (hex) => `Until May my password was ${hex}!`,
  'a password after is and a colon': (hex) => `The wifi password is: ${hex}`,
  'a changed password': (hex) => `Please set the admin password to ${hex}, thanks`,
  'a password before its name': (hex) => `${hex} is my password.`,
  'a password in quotation marks': (hex) => `Log in with password "${hex}" as ada`,
  'a password after a space': (hex) => `user ada password ${hex}`,
  'a password after a dash': (hex) => `Password - ${hex}`,
  'a password after an arrow': (hex) => `password -> ${hex}`,
  'a possessive': (hex) => `The password's ${hex}`,
  'a passcode': (hex) => `passcode: ${hex}`,
  'a passphrase in words': (hex) => `my pass phrase is ${hex}`,
  'a one-time code': (hex) => `Your one-time code is ${hex}.`,
  'an access code': (hex) => `The access code for the door is ${hex}`,
  'an assigned one-time password': (hex) => `otp=${hex}`,
  'a spoken token': (hex) => `The token is ${hex}.`,
  'a spoken API key': (hex) => `our api key is ${hex}`,
  'JSON in a sentence': (hex) => `It sent {"user":"ada","password":"${hex}","ttl":5} twice`,
  'JSON in JSON': (hex) => JSON.stringify(JSON.stringify({ password: hex })),
  'JSON with spaces': (hex) => `{ "secret" : "${hex}" }`,
  'JSON with single quotes': (hex) => `{'passwd': '${hex}'}`,
  'JSON with an escaped name': (hex) => `{"p\\u0061ssword":"${hex}"}`,
  'a pair in JSON': (hex) => `[{"name":"password","value":"${hex}"}]`,
  'a list of pairs in JSON': (hex) => `[["X-Api-Key","${hex}"],["Accept","json"]]`,
  'options in JSON': (hex) => `["login","--password","${hex}"]`,
  YAML: (hex) => `user: ada\npassword: ${hex}\n`,
  TOML: (hex) => `client_secret = "${hex}"`,
  XML: (hex) => `<login><password>${hex}</password></login>`,
  'a row of an INI file': (hex) => `[db]\nuser=ada\npass=${hex}`,
  'a dollar sign': (hex) => `password=$${hex}`,
  'a dollar sign after a colon': (hex) => `password: $3${hex}`,
  'a value that begins with your': (hex) => `password=your${hex}`,
  'a value that begins with a bracket': (hex) => `password=[${hex}`,
  'a value that begins with a brace': (hex) => `password={${hex}~`,
  'a value with a comma': (hex) => `password="a,${hex}"`,
  'a value with spaces': (hex) => `password='my ${hex}'`,
  'an address as a value': (hex) => `password=https://${hex}`,
  'an unknown scheme': (hex) => `token=mine://${hex}`,
  'a long option': (hex) => `deploy --password ${hex} --verbose`,
  'a long option with =': (hex) => `deploy --api-key=${hex}`,
  'an option of mysql': (hex) => `mysql -u root -p${hex} shop`,
  'an option of sshpass': (hex) => `sshpass -p ${hex} ssh ada@host`,
  'an option of docker': (hex) => `docker login -u ada -p ${hex} registry.example`,
  'an option of redis-cli': (hex) => `redis-cli -h db -a ${hex} ping`,
  'a camel-case name': (hex) => `dbPassword=${hex}`,
  'a kebab-case name': (hex) => `db-password=${hex}`,
  'a name with dots': (hex) => `spring.datasource.password=${hex}`,
  'a name with a version': (hex) => `signing_secret_v1=${hex}`,
  'a name with a suffix': (hex) => `PASSWORD_PROD=${hex}`,
  'a name with digits for letters': (hex) => `p4ssw0rd=${hex}`,
  'recovery codes': (hex) => `recovery_codes=${hex}`,
  'a short name': (hex) => `pass=${hex}`,
  auth: (hex) => `auth=${hex}`,
  'a header': (hex) => `X-Auth-Token: ${hex}`,
  'a cookie': (hex) => `Set-Cookie: session_token=${hex}; Path=/`,
  'percent-encoding, twice': (hex) => `password%253D${hex}`,
  'percent-encoded letters': (hex) => `%70assword=${hex}`,
  'an escape': (hex) => `\\u0070assword=${hex}`,
  'a combining mark': (hex) => `pa\u0301ssword=${hex}`,
  'a sentence in another case': (hex) => `MY PASSWORD IS ${hex}`,
  'a password for a place': (hex) => `password for prod: ${hex}`,
  'a password with a place in brackets': (hex) => `password (prod): ${hex}`,
  'a list of passwords': (hex) => `my passwords are ${hex} and another1`,
  'a pw': (hex) => `the pw for prod is ${hex}`,
  'a pw after its value': (hex) => `${hex} is the pw`,
  'an API key after a space': (hex) => `api key ${hex}`,
  'a letter of another alphabet': (hex) => `p\u0430ssword: ${hex}`,
  'an encoded letter of another alphabet': (hex) => `p%D0%B0ssword=${hex}`,
  'two secrets': (hex) => `password=${hex} and next=%3Ftoken%3D${hex}`,
}

/** The secret itself is encoded: what is searched for afterwards is the encoded text. */
const ENCODED: Readonly<Record<string, (hex: string) => string>> = {
  base64: (hex) => Buffer.from(`password=${hex}`).toString('base64'),
  'base64 of JSON': (hex) => Buffer.from(`{"password":"${hex}"}`).toString('base64url'),
  'a sentence in base64': (hex) => `see ${Buffer.from(`my password is ${hex}`).toString('base64')} for it`,
  hex: (hex) => Buffer.from(`token=${hex}`).toString('hex'),
}

/** Shannon entropy, in bits per character. */
function entropyOf(text: string): number {
  const counts = Map.groupBy(text, (letter) => letter)
  return [...counts.values()].reduce(
    (sum, { length }) => sum - (length / text.length) * Math.log2(length / text.length),
    0,
  )
}

/** What fast-check cannot generate from: edges of words and modifiers. */
function plainPattern(pattern: string): RegExp {
  const bare = pattern
    .replaceAll(/\\b|\(\?!\\w\)/g, '')
    .replaceAll(/\(\?-?i:/g, '(?:')
    .replaceAll(/\(\?:\^\|[^)]*\)\]\)|\(\?:\$\|[^)]*\)?[^)]*\]\)/g, '')
    .replaceAll('(?:[^\\w-]|$)', '')
    .replaceAll('(?:[^a-zA-Z0-9+/]|$)', '')
    .replaceAll(',}', ',300}')
  return new RegExp(`^(?:${bare})$`)
}

function fromRule(
  { id, pattern, entropy = 0, isAssigned, keywords }: (typeof gitleaksRules)[number],
  seed: number,
): SecretCanary[] {
  const value = isAssigned ? /\{0,5\}\((.*?)\)\(\?!\\w\)/.exec(pattern)?.[1] : undefined
  const shape = plainPattern(value ?? pattern)
  const texts = fc.sample(fc.stringMatching(shape), { seed, numRuns: 80 })
  const lasting = texts.filter((text) => {
    const secret = shape.exec(text)?.[1] ?? text
    const isOfRule = isAssigned ? /\d/.test(text) : keywords.some((keyword) => text.toLowerCase().includes(keyword))
    return isOfRule && entropyOf(secret) > entropy + 0.3 && coreOf(text).length >= 6 && !pattern.includes(coreOf(text))
  })
  return lasting.slice(0, 1).map((text) => ({
    name: id,
    text: isAssigned ? `${keywords[0]}_api_key = "${text}"` : text,
    core: coreOf(text),
  }))
}

/** The longest run of letters and digits: it looks the same in JSON, in SQL and in a URL. */
function coreOf(text: string): string {
  const runs = text.match(/[A-Za-z0-9]+/g) ?? []
  return runs.reduce((longest, run) => (run.length > longest.length ? run : longest), '')
}

export function secretCanaries(seed: number): readonly SecretCanary[] {
  const shapes = { ...SHAPES, ...VARIATIONS, ...ENCODED }
  const hexes = fc.sample(fc.stringMatching(/^[0-9a-f]{7}[0-9][0-9a-f]{15}[a-f]$/), {
    seed,
    numRuns: Object.keys(shapes).length * 2,
  })
  const own = Object.entries(shapes).map(([name, shape], at): SecretCanary => {
    const hex = [...new Set(hexes)][at] ?? ''
    const text = shape(hex)
    return { name, text, core: text.includes(hex) ? hex : coreOf(text) }
  })
  const all = [...own, ...gitleaksRules.flatMap((rule, at) => fromRule(rule, seed + at))]
  const counts = Map.groupBy(all, ({ core }) => core)
  // A core that two of them share is part of the rule, not of the secret.
  return all.filter(({ core }) => counts.get(core)?.length === 1)
}
