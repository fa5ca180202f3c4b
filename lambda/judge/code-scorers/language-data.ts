/** What the language scorers know of languages beside the trigram profiles of `franc`. */

/** ISO 639-1 codes of the languages that are told apart, by the ISO 639-3 codes of `franc`. */
// biome-ignore format: a table
export const LANGUAGES: Readonly<Record<string, string>> = {
  afr: 'af', amh: 'am', arb: 'ar', azj: 'az', bel: 'be', ben: 'bn', bul: 'bg', cat: 'ca', ces: 'cs', cmn: 'zh', dan: 'da', deu: 'de',
  ekk: 'et', ell: 'el', eng: 'en', fin: 'fi', fra: 'fr', glg: 'gl', guj: 'gu', hau: 'ha', heb: 'he', hin: 'hi', hrv: 'hr', hun: 'hu',
  hye: 'hy', ind: 'id', ita: 'it', jpn: 'ja', kan: 'kn', kat: 'ka', kaz: 'kk', khk: 'mn', khm: 'km', kor: 'ko', lao: 'lo', lit: 'lt',
  lvs: 'lv', mal: 'ml', mar: 'mr', mkd: 'mk', mya: 'my', nld: 'nl', nob: 'no', npi: 'ne', pan: 'pa', pbu: 'ps', pes: 'fa', pol: 'pl',
  por: 'pt', ron: 'ro', rus: 'ru', sin: 'si', slk: 'sk', slv: 'sl', som: 'so', spa: 'es', srp: 'sr', swe: 'sv', swh: 'sw', tam: 'ta',
  tel: 'te', tgl: 'tl', tha: 'th', tur: 'tr', ukr: 'uk', urd: 'ur', uzn: 'uz', vie: 'vi', yor: 'yo', zlm: 'ms', zul: 'zu',
};

/**
 * Very frequent short words by language (ISO 639-1). They decide on sentences that are too short for trigrams. Words
 * that two languages share are in both lists and cancel out.
 */
export const FUNCTION_WORDS: Readonly<Record<string, string>> = {
  en: "the of and to in is it you that was for on are as with his they at be this have from or had by but not what all were we when your can said there use an each which she do how their if will up about out many then them these so some her would like him into time has look more could my than been who its now i am did me over our because does please here yes no it's i'm don't you're just any should where why",
  de: 'der die das und ist nicht ich sie es ein eine einen zu den mit auf für von dem sich des im auch als an wie wir aber bei oder nach aus wird sind hat war kann man nur noch so um wenn mein meine ihr ihre ihren werden haben dass diese dieser über durch bitte was wo warum gibt vor zum zur einer einem bis hier keine mehr sehr uns ihnen könnten können sein seine ihm in am wurde wurden sollte sollten sollen unter schon immer vom war waren beim ihn dann bin bist weil mehr als jetzt gibt es alle',
  fr: "le la les de des un une et est que qui dans pour pas sur avec ce cette il elle nous vous je ne au aux du se son sa ses par plus mais ou où leur être avoir comme tout fait été sont mon ma mes votre vos notre si bien aussi sans peut très quel quelle comment pourquoi c'est j'ai n'est d'un d'une l'on qu'il merci ici ces en y à puis-je",
  es: 'el la los las de del un una y es que en por para con no se su sus al lo como más pero me le ya o este esta esto sí porque muy sin sobre también hasta hay donde quien desde todo nos durante uno les ni contra otros ese eso ante ellos fue son cómo qué cuál puedo mi tu usted está están ser tiene gracias aquí cuando si antes',
  it: "il lo la i gli le di del della dei delle un una uno e è che in per con non si su suo sua al alla come più ma mi ci da dal dalla nel nella anche se sono ho ha hai questo questa quello cosa chi dove quando perché molto senza sul sulla essere stato fare può posso mio mia loro grazie qui ed o ai alle l'importo dell'uso c'è ieri",
  pt: 'o a os as de do da dos das um uma e é que em no na nos nas por para com não se seu sua ao à como mais mas me foi ele ela isso este esta isto também até há onde quem desde tudo sem sobre são está estão ser tem ter pode posso meu minha você vocês obrigado aqui quando muito já ou pelo pela qual porque deles ontem antes',
  nl: 'de het een en van is in dat op te zijn met voor niet aan er om ook als maar dan bij of uit nog wel naar door over ze hij zij wij je jij u uw mijn ik we was worden wordt heeft heb had kan kunt kunnen deze dit die wat hoe waar waarom veel geen meer tot al hun ons onze moet zal graag hier',
  sv: 'och att det i en jag hon som han på den med var sig för så till är men ett om hade de av icke mig du henne då sin nu har inte hans honom skulle hennes där min man ej vid kunde något från ut när efter upp vi dem vara vad över än dig kan sina här ha mot alla under någon eller allt mycket sedan ju denna själv detta åt utan varit hur ingen mitt ni bli blev oss din dessa några deras mina samma vilken er sådan vår mellan varför vilket',
  da: 'og i jeg det at en den til er som på de med han af for ikke der var mig sig men et har om vi min havde ham hun nu over da fra du ud sin dem os op man hans hvor eller hvad skal selv her alle vil blev kunne ind når være dog noget ville jo deres efter ned skulle denne end dette mit også under have dig anden hende mine alt meget sit sine vor mod disse hvis din nogle hos blive mange ad bliver hendes været jer sådan hvordan hvorfor hvilken kan inden jeres jer nej igen lidt måske tak også gerne hvilket',
  no: 'og i jeg det at en et den til er som på de med han av ikke der så var meg seg men ett har om vi min mitt ha hadde hun nå over da ved fra du ut sin dem oss opp man kan hans hvor eller hva skal selv sjøl her alle vil bli ble blitt kunne inn når være kom noen noe ville dere deres kun ja etter ned skulle denne for deg si sine sitt mot å meget hvorfor dette disse uten hvordan ingen din ditt blir samme hvilken hvilke sånn inni mellom vår hver hvem vors hvis både bare enn fordi før mange også slik vært være begge siden kanskje takk gjerne litt igjen fikk får',
  fi: 'ja on ei se että hän oli en mutta ovat kun niin tai kuin jos minä sinä me te he tämä mitä miten miksi missä voi voin voit voisi voisitte olla ole olen olet myös vain joka jotka sen sitä siitä siinä hänen minun sinun minulle minua tässä tämän nyt vielä jo mukaan kanssa ennen jälkeen koska kaikki mikä ollut sekä eikä noin näin hyvin kuinka sain eilen',
  pl: 'i w na z do nie się to jest że o jak ale po co tak za od jego go czy tylko jej dla ten był była było już przez przed ja ty my wy oni mnie ci jeszcze może mogę są być oraz także które który która lub albo bardzo ma mam można gdy kiedy gdzie dlaczego proszę swoje swój tego tej tym ich nad pod bez aby więc jeśli',
  cs: 'a v na se je že s z do o to i jak ale po co tak za od jeho by pro už jen jsem jsi jsou byl byla bylo být ve ze si ten ta tím jako který která které nebo také může mohu když kde proč prosím své svůj mě mi vám nás vás pak ještě než při před bez aby pokud více které mohli byste',
  sk: 'a v na sa je že s z do o to aj ako ale po čo tak za od jeho by pre už len som si sú bol bola bolo byť vo zo ten tá tým ktorý ktorá ktoré alebo tiež môže môžem keď kde prečo prosím svoje svoj ma mi vám nás vás potom ešte než pri pred bez aby ak viac mohli ste',
  hu: 'a az és hogy nem is egy van ez de meg csak ha már mint én te ő mi ti ők volt lesz nagyon azt ezt vagy minden még el ki be fel le kell lehet tudom tudja tudják miért hogyan hol mikor akkor után előtt között szerint kérem köszönöm itt ott olyan ilyen amely ami aki ennek annak mert sem majd pedig igen',
  ro: 'și de la a în nu că se cu pe un o este din ca mai pentru ce sunt cum dar sau prin fi ale lui ei lor am ai au fost care dacă când unde îmi îți mă te ne vă meu mea lucru foarte doar după fără până atunci acest această aceste despre asupra între poate pot putea puteți vreau rog mulțumesc aici acum ieri',
  tr: 've bir bu da de için ile ben sen o biz siz onlar ne nasıl neden nerede mi mı mu mü değil var yok gibi daha çok en ama veya ya ki kadar sonra önce olarak olan her şey bana sana beni seni benim senin lütfen şimdi nedir hangi bütün bazı sadece göre eğer ise olur oldu dün hem nasılım lütfen edebilir misiniz miyim sıfır değildir içinde tarafından üzerinde',
  id: 'yang dan di dari ke ini itu untuk dengan tidak adalah saya anda kami kita mereka dia akan pada juga sudah bisa dapat ada atau karena oleh sebagai dalam lebih tetapi bagaimana apa siapa mengapa kapan mana bisakah tolong sebelum sesudah setelah jika bahwa telah hanya seperti harus para belum masih agar sangat nya kemarin',
  ca: 'el la els les de del un una i és que en per amb no es seu seva al com més però em li ja o aquest aquesta això sí perquè molt sense sobre també fins hi ha on qui des tot ens dels són està ser té puc meu meva vostè gràcies aquí quan què quin quina pot amb',
  vi: 'và của là có cho không được trong một những các với đã này khi từ như để người tôi bạn anh chị nó cũng ra vào đến lại thế nào làm gì nhưng hay hoặc rằng sẽ đang về trên sau trước rất nhiều nếu thì mà vì ở bị ông bà mình chúng ta có thể tại sao vui lòng',
  ru: 'и в не на я что он с как это а по но они к у ты из мы за вы так же от она было бы для только меня его её их мне вас нам или если уже был быть когда где почему можно может могу есть до о об при без вот все всё ещё очень чтобы которые который также нет да ли мой ваш свой этот эта эти того',
  uk: 'і в у не на я що він з як це а по але вони до ти із ми за ви так же від вона було б для тільки мене його її їх мені вас нам або якщо вже був бути коли де чому можна може можу є про при без ось все ще дуже щоб які який також ні та чи мій ваш свій цей ця ці того й зі',
  be: 'і ў у не на я што ён з як гэта а па але яны да ты мы за вы так ад яна было б для толькі мяне яго яе іх мне вас нам або калі ўжо быў быць дзе чаму можна можа магу ёсць аб пра пры без усё яшчэ вельмі каб якія які таксама ці мой ваш свой гэты гэтая',
  bg: 'и в не на аз че той с как това а по но те към ти от ние за вие така тя беше би само ме го я ги ми ви ни или ако вече бил да кога къде защо може мога е са съм до при без ето всичко още много който която които също ли мой ваш си този тази тези се ще във със преди след',
  sr: 'и у не на ја да он са как ово а по али они ка ти из ми за ви тако од она било би само мене га је су њих ми вас нам или ако већ био бити када где зашто може могу сам до о при без ево све још веома који која које такође ли мој ваш свој овај ова се ће што',
  mk: 'и во не на јас дека тој со како ова а по но тие кон ти од ние за вие така таа беше би само ме го ја ги ми ви ни или ако веќе бил да кога каде зошто може можам е се сум до при без сè уште многу кој која кои исто ли мојот ваш овој оваа овие ќе што',
  ar: 'في من على إلى عن أن هذا هذه ذلك التي الذي هو هي كان كانت لا ما لم لن قد كل أو و ثم مع بعد قبل عند إذا كيف هل لماذا متى أين أنا أنت نحن هم يمكن يمكنك يمكنكم يمكنني لكن حتى بين غير أي تم يجب كما بعض',
  fa: 'در از به که این آن را با است برای بر تا هم یا و ما من شما او آنها می نمی شود شده کرد کرده کنید کنم باید چه چگونه چرا کجا اگر اما هر یک دو بود باشد هستند خود دیگر نیز پس پیش لطفاً ای های ها توانم دارم دارد',
  ur: 'کے کی کا میں ہے اور سے کو یہ کہ پر نے اس وہ ہیں جو ہو تھا تھی ایک کیا نہیں بھی تو کر لیے ہم آپ مجھے میرا کیسے کیوں کہاں اگر لیکن یا تک بعد ساتھ سکتا سکتے گا گی رہا رہے',
  hi: 'के की का में है और से को यह कि पर ने इस वह हैं जो हो था थी एक क्या नहीं भी तो कर लिए हम आप मुझे मैं मेरा अपना कैसे क्यों कहाँ अगर लेकिन या तक बाद साथ सकता सकते गा रहा रहे',
  mr: 'आहे आणि या मी तो ती ते हे ही हा मध्ये नाही का काय कसे कसा कुठे केव्हा आहेत होते होता होती माझा माझे तुम्ही आम्ही करू शकतो शकता साठी पासून पण किंवा जर तर त्या आपण आपल्या असे',
  ne: 'छ र को मा ले लाई यो त्यो हो छन् थियो के कसरी किन कहाँ म तपाईं हामी मेरो पनि छैन गर्न सक्छु सक्छ भने वा तर बाट सम्म लागि गर्नुहोस् हुन्छ भएको',
};

/** Letters by which a language differs from its neighbours. Each counts like a frequent word, see MAX_LETTER_HITS. */
export const TELLING_LETTERS: Readonly<Record<string, string>> = {
  de: 'ß',
  es: 'ñ¿¡',
  pt: 'ãõ',
  da: 'æø',
  no: 'æø',
  sv: 'åäö',
  fi: 'äö',
  pl: 'łąężśćź',
  cs: 'řěů',
  sk: 'ľĺŕôä',
  hu: 'őű',
  ro: 'țșăţ',
  tr: 'ığş',
  vi: 'ơưđạảấầẩẫậắằẳẵặẹẻẽềểễệịọộớờởợụủứừữựỳỵỷỹ',
  ru: 'ыэёъщ',
  be: 'ўыэё',
  uk: 'їєґ',
  sr: 'ђћјљњџ',
  mk: 'ѓќѕјљњџ',
};
